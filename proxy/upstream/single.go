package upstream

import (
	"context"

	"github.com/redis/go-redis/v9"

	"leash/proxy/links"
	"leash/proxy/topology"
)

// discoverSingle makes the topology of a single Redis. It asks for replicas only if sessions read
// from them.
func (u *Upstream) discoverSingle(ctx context.Context) error {
	addr := u.cfg.Addrs[0]
	if u.Topology() == nil {
		l := topology.Single(addr, nil)
		l.Replicas = -1
		u.adopt(l)
	}
	if !u.ReadsReplicas() {
		return nil
	}
	var info string
	err := u.Ask(ctx, addr, func(ctx context.Context, c *redis.Client) (err error) {
		info, err = c.Info(ctx, "replication").Result()
		return err
	})
	if err != nil {
		return err
	}
	u.adopt(topology.Single(addr, topology.ReplicasIn(info)))
	return nil
}

// replace puts a new Node in the place of n, the only master. All connections to n end: links,
// pinned ones, and those of go-redis and of lock scripts.
func (u *Upstream) replace(n *links.Node) {
	u.Nodes.Remove(n)
	u.adopt(topology.Single(n.Addr, nil))
	u.close(n)
	u.Refresh() // finds the replicas
	if u.onSwitch != nil {
		u.onSwitch()
	}
}
