package upstream

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/proxy/topology"
)

// While sessions read from replicas, Leash asks the masters once per movesInterval whether slots
// are migrating. After that, reads go to masters for movesLast.
const (
	movesInterval = time.Second
	movesLast     = 5 * time.Second
)

// SlotsMoving reports whether slots of the cluster are migrating, or were within the last
// movesLast. Leash checks this only while sessions read from replicas. The replica of a slot's old
// master answers nil for keys that have moved, where the master answers ASK.
func (u *Upstream) SlotsMoving() bool {
	until := u.movingUntil.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// lookForMoves asks the masters whether slots are migrating. An error does no harm: the next round
// asks again.
func (u *Upstream) lookForMoves(ctx context.Context) {
	cluster, ok := u.Client().(*redis.ClusterClient)
	if !ok {
		return
	}
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		nodes, err := c.ClusterNodes(ctx).Result()
		if err == nil && topology.IsMigrating(nodes) {
			u.movingUntil.Store(time.Now().Add(movesLast).UnixNano())
		}
		return err
	})
}
