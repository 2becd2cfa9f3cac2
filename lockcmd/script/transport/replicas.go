package transport

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A grant counts only if enough replicas have it, when the command has REPLICAS (R32). Redis's WAIT
// tells, for the writes of its own connection, and blocks that connection. So these calls have
// connections of their own.

const (
	// time between the end of WAIT and the end of its attempt
	replicaMargin = 50 * time.Millisecond
	ReplicaPool   = 64 // connections to one node
)

// waitClients are the clients whose connections WAIT blocks, by database and address. The zero
// value has none.
type waitClients struct {
	mu      sync.Mutex
	clients map[string]*redis.Client
}

// clientFor is the client for the node of another client.
func (p *waitClients) clientFor(node *redis.Client) *redis.Client {
	opt := *node.Options()
	opt.PoolSize = ReplicaPool
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
func (c *Client) runReplicated(ctx context.Context, call *Call, limit time.Time) (any, error) {
	call.GotReplicas = 0
	rdb := c.Database(call.DB)
	node, ok := rdb.(*redis.Client)
	if cluster, is := rdb.(*redis.ClusterClient); is {
		master, err := cluster.MasterForKey(ctx, call.Keys[0])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		node, ok = master, true
	}
	if !ok {
		return nil, ErrRefused
	}
	conn := c.waitClients.clientFor(node).Conn()
	defer conn.Close()
	reply, err := call.Script.Run(ctx, conn, call.Keys, call.Args)
	if redis.HasErrorPrefix(err, "ASK") {
		return call.Script.Run(ctx, rdb, call.Keys, call.Args)
	}
	if n, _ := Items(reply); err == nil && len(n) > 0 && n[0] == 1 && c.touch(ctx, conn, call) {
		patience := max(min(call.ReplicaTimeout, time.Until(limit)-replicaMargin), time.Millisecond)
		call.GotReplicas = conn.Wait(ctx, int(call.WantReplicas), patience).Val() // 0 on an error
	}
	return reply, err
}

// touch makes WAIT on this connection cover what Redis has of the key now. It reports whether that
// worked.
func (c *Client) touch(ctx context.Context, conn Processor, call *Call) bool {
	reply, err := call.Touch.Run(ctx, conn, call.Keys[:1], nil)
	return err == nil && reply == any(int64(1))
}
