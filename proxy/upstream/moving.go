package upstream

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// While replicas are read from, masters are asked in this interval whether
// slots are on their way, and reads go to masters for so long afterwards.
const (
	movesInterval = time.Second
	movesLast     = 5 * time.Second
)

// SlotsMoving reports whether slots of the cluster are on their way from one
// master to another, as far as has been seen within the last second. It is only
// looked at when replicas are read from: the replica of a slot's old master
// answers nil for keys that have moved, where the master says ASK.
func (u *Upstream) SlotsMoving() bool {
	until := u.movingUntil.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// watchMoves looks for slots on their way until the Upstream ends.
func (u *Upstream) watchMoves() {
	tick := time.NewTicker(movesInterval)
	defer tick.Stop()
	for {
		select {
		case <-u.ctx.Done():
			return
		case <-tick.C:
		}
		if c, ok := u.Client().(*redis.ClusterClient); ok {
			ctx, cancel := context.WithTimeout(u.ctx, askTimeout)
			// those that do not answer are not read from either, in a moment
			_ = c.ForEachMaster(ctx, u.lookForMoves)
			cancel()
		}
	}
}

func (u *Upstream) lookForMoves(ctx context.Context, c *redis.Client) error {
	nodes, err := c.ClusterNodes(ctx).Result()
	if err == nil && hasMoves(nodes) {
		u.movingUntil.Store(time.Now().Add(movesLast).UnixNano())
	}
	return err
}

// hasMoves looks in a reply of CLUSTER NODES for "[93->-id]" or "[93-<-id]",
// which a node shows of itself.
func hasMoves(nodes string) bool {
	for line := range strings.Lines(nodes) {
		if strings.Contains(line, "myself") {
			return strings.Contains(line, " [")
		}
	}
	return false
}
