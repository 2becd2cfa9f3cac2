package upstream

import (
	"context"

	"leash/proxy/dial"
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
	err := u.Ask(ctx, addr, func(c *dial.Conn) (err error) {
		info, err = c.Text("INFO", "replication")
		return err
	})
	if err != nil {
		return err
	}
	u.adopt(topology.Single(addr, topology.ReplicasIn(info)))
	return nil
}

// replace puts a new Node in the place of n, the only master. All connections to n end: links,
// pinned ones, and those of lock scripts.
func (u *Upstream) replace(n *links.Node) {
	u.Nodes.Remove(n)
	u.adopt(topology.Single(n.Addr, nil))
	u.close(n)
	u.Refresh() // finds the replicas
	if u.onSwitch != nil {
		u.onSwitch()
	}
}
