package lockcmd

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// REPLICAS n: a grant counts when n replicas have it, or it is taken back (R32). Redis's WAIT
// tells, for what was done before on its own connection, which it blocks meanwhile. So these
// requests have connections of their own, and a replica that hangs holds nobody up but those who
// ask for it.

const (
	// how long a grant waits for replicas, if BLOCK leaves so much
	replicaPatience = time.Second
	leastPatience   = 10 * time.Millisecond // and when it does not
	// between the end of WAIT and that of the attempt it is in
	replicaMargin = 50 * time.Millisecond
	replicaPool   = 64 // how many requests of one node may wait at once
)

// msgNoReplicas is for a grant that fewer replicas have than were asked for.
func msgNoReplicas(have, want int64) string {
	return fmt.Sprintf("NOREPLICAS %d of %d replicas confirmed the lock in time, Leash released it", have, want)
}

// copiers are the clients whose connections WAIT blocks, by database and address. The zero value
// has none.
type copiers struct {
	mu      sync.Mutex
	clients map[string]*redis.Client
}

// like is the client for the node of another one.
func (p *copiers) like(node *redis.Client) *redis.Client {
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

func (p *copiers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		c.Close()
	}
	p.clients = nil
}

// runCopied runs r's script on the node that has its keys, and if that grants it waits there until
// enough replicas have what was done, or limit is near. A slot that is being moved has its keys on
// two nodes: then the script runs as any other, and nobody waits.
func (s *Service) runCopied(ctx context.Context, r *request, limit time.Time) (any, error) {
	r.copied = 0
	rdb := s.database(r.db)
	node, ok := rdb.(*redis.Client)
	if cluster, is := rdb.(*redis.ClusterClient); is {
		master, err := cluster.MasterForKey(ctx, r.keys[0])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		node, ok = master, true
	}
	if !ok {
		return nil, errRefused
	}
	conn := s.copiers.like(node).Conn()
	defer conn.Close()
	reply, err := r.script.run(ctx, conn, r.keys, r.args)
	if redis.HasErrorPrefix(err, "ASK") {
		return r.script.run(ctx, rdb, r.keys, r.args)
	}
	if err == nil && numbers(reply)[0] == 1 && s.isCopyable(ctx, conn, r.keys[0]) {
		patience := max(min(r.patience, time.Until(limit)-replicaMargin), time.Millisecond)
		r.copied = conn.Wait(ctx, int(r.copies), patience).Val() // none, if it does not say
	}
	return reply, err
}

// isCopyable lets WAIT on this connection speak of what is known of a lock by now, and reports
// whether that was done.
func (s *Service) isCopyable(ctx context.Context, conn processor, key string) bool {
	reply, err := copiedScript.run(ctx, conn, []string{key}, nil)
	return err == nil && numbers(reply)[0] == 1
}

// patience is how long a grant of t waits for replicas.
func (t *try) replicaPatience() time.Duration {
	if t.end.IsZero() {
		return replicaPatience
	}
	return max(min(replicaPatience, time.Until(t.end)), leastPatience)
}

// uncopied takes back a grant that too few replicas have.
func (t *try) uncopied(r result) result {
	s := t.carrier.service
	timer := time.NewTimer(endPatience)
	defer timer.Stop()
	undo := s.undo
	switch {
	case r.kind == moved:
		h, _ := t.carry(r)
		undo = func(t *try) <-chan struct{} { return s.undoMoved(t, func() *hold { return h }) }
	case r.again:
		undo = s.undoRepeated
	}
	select {
	case <-undo(t):
	case <-timer.C:
	case <-s.stop:
	}
	return result{kind: failed, text: msgNoReplicas(r.copied, t.wish.replicas)}
}
