package upstream

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/proxy/dial"
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

// watchMoves looks for migrating slots until the Upstream ends.
func (u *Upstream) watchMoves() {
	tick := time.NewTicker(movesInterval)
	defer tick.Stop()
	for {
		select {
		case <-u.Nodes.Context().Done():
			return
		case <-tick.C:
		}
		if c, ok := u.Client().(*redis.ClusterClient); ok {
			ctx, cancel := context.WithTimeout(u.Nodes.Context(), dial.AskTimeout)
			// an error does no harm: the next round asks again
			_ = c.ForEachMaster(ctx, u.lookForMoves)
			cancel()
		}
	}
}

func (u *Upstream) lookForMoves(ctx context.Context, c *redis.Client) error {
	nodes, err := c.ClusterNodes(ctx).Result()
	if err == nil && topology.IsMigrating(nodes) {
		u.movingUntil.Store(time.Now().Add(movesLast).UnixNano())
	}
	return err
}
