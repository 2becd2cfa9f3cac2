package redistest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	defaultMasters     = 3
	defaultNodeTimeout = 2 * time.Second
	clusterTimeout     = time.Minute
)

// ClusterOptions describe a cluster. The zero value is three masters without replicas.
type ClusterOptions struct {
	Masters  int // if zero, 3; each gets an equal share of the slots, in order
	Replicas int // of each master; if zero, none
	// NodeTimeout is cluster-node-timeout; if zero, 2 s. A failover takes about twice that long. If
	// the machine stalls for longer than NodeTimeout, the cluster starts a failover.
	NodeTimeout time.Duration
	// Args, Password, Clock and TLS are those of Options, for every node.
	Args     []string
	Password string
	Clock    bool
	TLS      *TLS
	// FaultProxy puts a proxy in front of each node and makes the cluster announce the proxies'
	// addresses. Replicas connect to their masters through them too. The cluster bus and this
	// package do not.
	FaultProxy bool
}

// Cluster is a Redis Cluster whose nodes are processes on this machine.
type Cluster struct {
	// Nodes are the masters in the order of their first slots, then the first replica of each, then
	// the second of each and so on. The order stays as built when roles change.
	Nodes []*Node

	opt ClusterOptions
}

// LaunchCluster starts a cluster and waits until it is complete: every node is in state ok and
// knows all replicas and the owner of every slot, and every replica is linked to its master. That
// takes 2 to 3 s, because Redis lets a new master serve 2 s after its start at the earliest. The
// caller closes the cluster.
func LaunchCluster(opt ClusterOptions) (*Cluster, error) {
	if opt.Masters == 0 {
		opt.Masters = defaultMasters
	}
	if opt.NodeTimeout == 0 {
		opt.NodeTimeout = defaultNodeTimeout
	}
	c := &Cluster{opt: opt}
	err := c.launchNodes(opt.Masters * (1 + opt.Replicas))
	if err == nil {
		err = c.assemble()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("redistest: cluster: %w", err), c.Close())
	}
	return c, nil
}

// Close ends all nodes.
func (c *Cluster) Close() error {
	return each(c.Nodes, (*Node).Close)
}

// launchNodes starts n servers in parallel.
func (c *Cluster) launchNodes(n int) error {
	nodes := make([]*Node, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() { nodes[i], errs[i] = launchNode(&c.opt) })
	}
	wg.Wait()
	for _, n := range nodes {
		if n != nil {
			c.Nodes = append(c.Nodes, n)
		}
	}
	return errors.Join(errs...)
}

// assemble joins separate servers into a cluster.
func (c *Cluster) assemble() error {
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	for i, n := range c.Nodes {
		if err := c.prepare(ctx, i, n); err != nil {
			return fmt.Errorf("set up %s: %w", n.Server.Addr, err)
		}
	}
	if err := poll(clusterTimeout, c.meetAll); err != nil {
		return err
	}
	for i, n := range c.Nodes[c.opt.Masters:] {
		master := c.Nodes[i%c.opt.Masters]
		if err := n.Client().ClusterReplicate(ctx, master.ID).Err(); err != nil {
			return fmt.Errorf("make %s a replica: %w", n.Server.Addr, err)
		}
	}
	return c.AwaitStable(clusterTimeout)
}

// prepare sets the epoch and the slots of node i. Redis requires that before the node meets
// another.
func (c *Cluster) prepare(ctx context.Context, i int, n *Node) error {
	pipe := n.Client().Pipeline()
	id := pipe.ClusterMyID(ctx)
	pipe.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	if i < c.opt.Masters {
		first, last := share(i, c.opt.Masters)
		pipe.ClusterAddSlotsRange(ctx, first, last)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	n.ID = id.Val()
	return nil
}

// share returns the slots of master i of n, as redis-cli divides them.
func share(i, n int) (first, last int) {
	bound := func(i int) int { return (i*SlotCount + n/2) / n }
	return bound(i), bound(i+1) - 1
}

// meetAll returns nil once every node knows every other by its final id. A node meets each one that
// it does not know: through gossip alone, it would learn of it seconds later. Redis ignores that
// during a handshake, which it gives up after NodeTimeout.
func (c *Cluster) meetAll() error {
	return each(c.Nodes, func(n *Node) error {
		v, err := n.view()
		if err != nil {
			return err
		}
		var errs []error
		for _, other := range c.Nodes {
			if info := v[other.ID]; info == nil || info.flags["handshake"] {
				errs = append(errs, fmt.Errorf("%s does not know %s yet", n.Server.Addr, other.Server.Addr), n.meet(other))
			}
		}
		return errors.Join(errs...)
	})
}

// each calls f for all nodes in parallel and joins the errors.
func each(nodes []*Node, f func(*Node) error) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = f(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Addrs returns the announced addresses of all nodes, masters first, as built.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		addrs[i] = n.Announced()
	}
	return addrs
}
