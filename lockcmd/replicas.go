package lockcmd

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// REPLICAS n: a grant counts only if n replicas have it. Otherwise it is taken back (R32). Redis's
// WAIT tells, for the writes of its own connection, and blocks that connection. So these requests
// have connections of their own. A replica that hangs delays only commands with REPLICAS.

const (
	// how long a grant waits for replicas, if BLOCK leaves that much
	replicaTimeout    = time.Second
	minReplicaTimeout = 10 * time.Millisecond // the minimum
	// time between the end of WAIT and the end of its attempt
	replicaMargin = 50 * time.Millisecond
	replicaPool   = 64 // connections to one node
)

// msgNoReplicas is the error for a grant that too few replicas have and that was undone.
func msgNoReplicas(have, want int64) string {
	return fmt.Sprintf("NOREPLICAS %d of %d replicas confirmed the lock in time, Leash released it", have, want)
}

// msgNotUndone is msgNoReplicas while Redis has not answered the undo.
func msgNotUndone(have, want int64) string {
	return fmt.Sprintf("NOREPLICAS %d of %d replicas confirmed the lock in time, Leash is still releasing it", have, want)
}

// waitClients are the clients whose connections WAIT blocks, by database and address. The zero
// value has none.
type waitClients struct {
	mu      sync.Mutex
	clients map[string]*redis.Client
}

// clientFor is the client for the node of another client.
func (p *waitClients) clientFor(node *redis.Client) *redis.Client {
	opt := *node.Options()
	opt.PoolSize = replicaPool
	id := strconv.Itoa(opt.DB) + " " + opt.Addr
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[id]
	if c == nil {
		if p.clients == nil {
			p.clients = make(map[string]*redis.Client)
		}
		c = redis.NewClient(&opt)
		p.clients[id] = c
	}
	return c
}

func (p *waitClients) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		c.Close()
	}
	p.clients = nil
}

// runReplicated runs the script on the node of its keys. After a grant it waits there until enough
// replicas have it, or until limit is near. In a slot migration the script runs like any other,
// without WAIT.
func (s *Service) runReplicated(ctx context.Context, call *scriptCall, limit time.Time) (any, error) {
	call.gotReplicas = 0
	rdb := s.database(call.db)
	node, ok := rdb.(*redis.Client)
	if cluster, is := rdb.(*redis.ClusterClient); is {
		master, err := cluster.MasterForKey(ctx, call.keys[0])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", script.ErrRefused, err)
		}
		node, ok = master, true
	}
	if !ok {
		return nil, script.ErrRefused
	}
	conn := s.waitClients.clientFor(node).Conn()
	defer conn.Close()
	reply, err := call.script.Run(ctx, conn, call.keys, call.args)
	if redis.HasErrorPrefix(err, "ASK") {
		return call.script.Run(ctx, rdb, call.keys, call.args)
	}
	if err == nil && integersOf(reply)[0] == 1 && s.touch(ctx, conn, call.keys[0]) {
		patience := max(min(call.replicaTimeout, time.Until(limit)-replicaMargin), time.Millisecond)
		call.gotReplicas = conn.Wait(ctx, int(call.wantReplicas), patience).Val() // 0 on an error
	}
	return reply, err
}

// touch makes WAIT on this connection cover what Redis has of the lock now. It reports whether that
// worked.
func (s *Service) touch(ctx context.Context, conn script.Processor, key string) bool {
	reply, err := script.TouchScript.Run(ctx, conn, []string{key}, nil)
	return err == nil && integersOf(reply)[0] == 1
}

// replicaWait is how long a grant waits for replicas.
func (a *acquisition) replicaWait() time.Duration {
	if a.end.IsZero() {
		return replicaTimeout
	}
	return max(min(replicaTimeout, time.Until(a.end)), minReplicaTimeout)
}

// undoUnreplicated takes back a grant that too few replicas have.
func (a *acquisition) undoUnreplicated(r result) result {
	s := a.carrier.service
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	undo := s.undo
	switch {
	case r.kind == moved:
		h, _ := a.carry(r)
		undo = func(a *acquisition) <-chan struct{} { return s.undoMoved(a, func() *hold { return h }) }
	case r.repeated:
		undo = s.undoRepeated
	}
	select {
	case <-undo(a):
		return result{kind: failed, text: msgNoReplicas(r.replicas, a.options.replicas)}
	case <-timer.C:
	case <-s.stop:
	}
	return result{kind: failed, text: msgNotUndone(r.replicas, a.options.replicas)}
}
