package upstream

import (
	"context"
	"time"
)

// While sessions read from replicas, Leash asks the masters once per movesInterval whether slots
// are migrating. After that, reads go to masters for movesLast.
const (
	movesInterval = time.Second
	movesLast     = 5 * time.Second
)

// SlotsMoving reports whether slots of the cluster are migrating or have moved, now or within the
// last movesLast. Leash checks this only while sessions read from replicas. The replica of a slot's
// old master answers nil for keys that have moved, where the master answers ASK.
func (u *Upstream) SlotsMoving() bool {
	until := u.movingUntil.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// lookForMoves asks the masters whether slots are migrating. An error does no harm: the next round
// asks again.
func (u *Upstream) lookForMoves(ctx context.Context) {
	if stable, _ := u.SlotsStable(ctx, u.Topology()); !stable {
		u.movingUntil.Store(time.Now().Add(movesLast).UnixNano())
	}
}
