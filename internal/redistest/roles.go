package redistest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Running returns the nodes whose processes run and are not paused.
func (c *Cluster) Running() []*Node {
	var running []*Node
	for _, n := range c.Nodes {
		if n.Running() {
			running = append(running, n)
		}
	}
	return running
}

// selves asks each running node about its own role. It omits nodes that do not answer.
func (c *Cluster) selves() map[*Node]*nodeInfo {
	selves := map[*Node]*nodeInfo{}
	var mu sync.Mutex
	_ = each(c.Running(), func(n *Node) error {
		v, err := n.view()
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			selves[n] = v.self()
		}
		return err
	})
	return selves
}

// Masters returns the running nodes that say they are masters, in the order of Nodes.
func (c *Cluster) Masters() []*Node {
	selves := c.selves()
	return slices.DeleteFunc(c.Running(), func(n *Node) bool {
		return selves[n] == nil || !selves[n].flags["master"]
	})
}

// MasterOf returns the node that serves slot, or nil if there is none. If several running nodes say
// they are its master, it returns the one with the highest epoch.
func (c *Cluster) MasterOf(slot int) *Node {
	return masterOf(slot, c.selves())
}

func masterOf(slot int, selves map[*Node]*nodeInfo) *Node {
	var master *Node
	epoch := int64(-1)
	for n, self := range selves {
		if self.flags["master"] && self.has(slot) && self.epoch > epoch {
			master, epoch = n, self.epoch
		}
	}
	return master
}

// ReplicaOf returns a running replica of the master of slot, the first in the order of Nodes. It
// returns nil if there is none. The master need not be running.
func (c *Cluster) ReplicaOf(slot int) *Node {
	selves := c.selves()
	id := c.believedMasterOf(slot)
	if master := masterOf(slot, selves); master != nil {
		id = master.ID
	}
	for _, n := range c.Running() {
		if self := selves[n]; self != nil && self.masterID == id {
			return n
		}
	}
	return nil
}

// believedMasterOf returns the id of the master of slot as another node sees it.
func (c *Cluster) believedMasterOf(slot int) string {
	for _, n := range c.Running() {
		v, err := n.view()
		if err != nil {
			continue
		}
		for id, info := range v {
			if info.has(slot) {
				return id
			}
		}
	}
	return ""
}

// Failover makes a replica the master with CLUSTER FAILOVER, and returns when it serves its slots.
// With option "FORCE" the master need not agree. With "TAKEOVER" no other node need agree. Both are
// for masters that are dead or paused.
func (c *Cluster) Failover(replica *Node, option ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	command := []any{"CLUSTER", "FAILOVER"}
	for _, o := range option {
		command = append(command, o)
	}
	if err := replica.Client().Do(ctx, command...).Err(); err != nil {
		return fmt.Errorf("redistest: failover to %s: %w", replica.Server.Addr, err)
	}
	return poll(moveTimeout, func() error {
		v, err := replica.view()
		if err == nil && len(v.self().slots) == 0 {
			err = fmt.Errorf("redistest: %s has not become master", replica.Server.Addr)
		}
		return err
	})
}

// AwaitMaster waits until a node other than old serves slot, and returns it. It is for a failover
// that Redis starts itself.
func (c *Cluster) AwaitMaster(slot int, old *Node, timeout time.Duration) (*Node, error) {
	var master *Node
	err := poll(timeout, func() error {
		if master = c.MasterOf(slot); master == nil || master == old {
			return fmt.Errorf("redistest: slot %d has no new master", slot)
		}
		return nil
	})
	return master, err
}
