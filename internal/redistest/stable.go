package redistest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// AwaitStable returns nil when every running node is in state ok, all agree on the owner of every
// slot and on each other's roles, every running replica has its link to its master up, and CLUSTER
// SLOTS shows it at every node. After timeout it returns what is missing.
func (c *Cluster) AwaitStable(timeout time.Duration) error {
	return poll(timeout, c.stable)
}

func (c *Cluster) stable() error {
	running := c.Running()
	reports := make(map[*Node]*report, len(running))
	var mu sync.Mutex
	err := each(running, func(n *Node) error {
		r, err := n.report()
		mu.Lock()
		defer mu.Unlock()
		reports[n] = r
		return err
	})
	if err != nil || len(running) == 0 {
		return err
	}
	owners := reports[running[0]].view.owners()
	for n, r := range reports {
		if r.view.owners() != owners {
			return fmt.Errorf("%s and %s disagree about slots", running[0].Server.Addr, n.Server.Addr)
		}
		for other, its := range reports {
			if err := r.knows(other, its.view.self()); err != nil {
				return fmt.Errorf("%s %w", n.Server.Addr, err)
			}
		}
	}
	return nil
}

// report is what one node says about itself and about the cluster.
type report struct {
	view  view
	shown map[string]bool // ids that CLUSTER SLOTS shows
}

// report asks the node for its report. It returns an error if the node is not in state ok with all
// slots assigned, or is a replica without a link.
func (n *Node) report() (*report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	var info, repl, nodes *redis.StringCmd
	var slots *redis.ClusterSlotsCmd
	_, err := n.Client().Pipelined(ctx, func(p redis.Pipeliner) error {
		info, repl = p.ClusterInfo(ctx), p.Info(ctx, "replication")
		nodes, slots = p.ClusterNodes(ctx), p.ClusterSlots(ctx)
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("state of %s: %w", n.Server.Addr, err)
	case !strings.Contains(info.Val(), "cluster_state:ok\r\n"):
		return nil, fmt.Errorf("%s is not in state ok", n.Server.Addr)
	case !strings.Contains(info.Val(), "cluster_slots_assigned:16384\r\n"):
		return nil, fmt.Errorf("%s does not know all slots", n.Server.Addr)
	case strings.Contains(repl.Val(), "role:slave\r\n") && !strings.Contains(repl.Val(), "master_link_status:up\r\n"):
		return nil, fmt.Errorf("replica %s has no link to its master", n.Server.Addr)
	}
	r := &report{shown: map[string]bool{}}
	for _, s := range slots.Val() {
		for _, n := range s.Nodes {
			r.shown[n.ID] = true
		}
	}
	r.view, err = parseView(nodes.Val())
	return r, err
}

// knows returns an error if the report does not match what another node says about itself.
func (r *report) knows(other *Node, self *nodeInfo) error {
	got := r.view[other.ID]
	switch {
	case got == nil:
		return fmt.Errorf("does not know %s", other.Server.Addr)
	case got.flags["fail"] || got.flags["fail?"] || got.flags["handshake"]:
		return fmt.Errorf("takes %s for failed or new", other.Server.Addr)
	case got.masterID != self.masterID:
		return fmt.Errorf("does not know the role of %s", other.Server.Addr)
	case !r.shown[other.ID] && r.shown[self.masterID]:
		return fmt.Errorf("does not show replica %s in CLUSTER SLOTS yet", other.Server.Addr)
	}
	return nil
}
