package upstream

import (
	"context"

	"github.com/redis/go-redis/v9"

	"leash/proxy/topology"
)

// slotsHook answers go-redis's CLUSTER SLOTS with the topology that Leash knows. Without it,
// go-redis asks one node after the other, in random order. At a frozen node it waits for
// UpstreamTimeout. During that time, commands would still go to that node, even if a replica was
// promoted.
//
// The option ClusterSlots cannot be used for this: with it, go-redis removes the host from loopback
// addresses. go-redis also follows a MOVED without reporting it. Then the hook requests a refresh
// of the topology.
type slotsHook struct{ up *Upstream }

// DialHook implements redis.Hook.
func (slotsHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h slotsHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd, ok := cmd.(*redis.ClusterSlotsCmd); ok {
			cmd.SetVal(clusterSlots(h.up.Topology()))
			return nil
		}
		err := next(ctx, cmd)
		h.noteMoved(err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h slotsHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			h.noteMoved(cmd.Err())
		}
		return err
	}
}

func (h slotsHook) noteMoved(err error) {
	if err != nil && redis.HasErrorPrefix(err, "MOVED") {
		h.up.Refresh()
	}
}

// clusterSlots is a topology in the form of CLUSTER SLOTS, without replicas.
func clusterSlots(t *topology.Snapshot) (all []redis.ClusterSlot) {
	for _, r := range t.Ranges() {
		all = append(all, redis.ClusterSlot{Start: int(r.First), End: int(r.Last),
			Nodes: []redis.ClusterNode{{Addr: r.Addrs[0]}}})
	}
	return all
}
