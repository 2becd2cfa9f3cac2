package upstream

import (
	"context"
	"time"
)

const (
	// movesInterval is the time between two questions to the masters whether slots are migrating.
	// Leash asks only while sessions read from replicas.
	movesInterval = time.Second
	// movingFor is how long slots count as moving after Leash has last noticed it.
	movingFor = 10 * time.Second
)

// SlotsMoving reports whether slots of the cluster move, or have moved within movingFor.
//
// Reads then go to masters. The replica of a slot's old master answers nil for keys that have
// moved, where the master answers ASK.
//
// A command with several keys of one slot may have to be sent again (TRYAGAIN). So a session then
// sends nothing after it before its reply. A later command on its slot would otherwise prevent the
// second attempt, and the client would get the error. The first command that meets a move may still
// get that error.
func (u *Upstream) SlotsMoving() bool {
	until := u.movingUntil.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// NoteMoving records that slots move now.
func (u *Upstream) NoteMoving() { u.movingUntil.Store(time.Now().Add(movingFor).UnixNano()) }

// lookForMoves asks the masters whether slots are migrating. An error does no harm: the next round
// asks again.
func (u *Upstream) lookForMoves(ctx context.Context) {
	if stable, _ := u.SlotsStable(ctx, u.Topology()); !stable {
		u.NoteMoving()
	}
}
