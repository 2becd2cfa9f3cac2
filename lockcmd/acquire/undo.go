package acquire

import (
	"fmt"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// undo takes back an acquire of unknown outcome. If the owner had a hold before, its requests stay
// locked until Redis has answered; then done is closed.
func (a *lockRequest) undo() (done <-chan struct{}) {
	own := a.own
	a.own = nil // the task unlocks it
	a.carrier.Acquirer.Undone.Add(1)
	return a.takeBackTwice(a, func() {
		if own != nil {
			own.UnlockRequests()
		}
	})
}

// undoMoved takes back an acquire whose ID moved a hold here. carry makes the hold one of the
// carrier's, if it can. done is closed when Redis has answered.
func (a *lockRequest) undoMoved(carry func() *hold.Hold) (done <-chan struct{}) {
	a.carrier.Acquirer.Undone.Add(1)
	copyPending := a.copyPending
	a.copyPending = false // this task handles a late copy
	answered := make(chan struct{})
	a.putBackMoved(a.owner, carry, func(h *hold.Hold) {
		a.leaveQueue()
		close(answered)
		switch a.granted = h; {
		case copyPending && h != nil:
			a.undoCopies(a)
		case copyPending:
			a.takeBackTwice(a, func() {})
		}
	})
	return answered
}

// undoRepeated takes back the last acquire of the carrier's own hold, which this command repeats.
// That acquire has counted. The requests stay locked until Redis has answered; then done is closed.
func (a *lockRequest) undoRepeated() (done <-chan struct{}) {
	own := a.own
	a.own = nil // the task unlocks it
	a.carrier.Acquirer.Undone.Add(1)
	answered := make(chan struct{})
	a.carrier.Acquirer.Tasks.Spawn(func() {
		defer close(answered)
		a.carrier.Acquirer.PutBackLocked(own, a.options.ID)
		a.leaveQueue()
	})
	return answered
}

// giveBack ends a grant that nobody can be told of. A new hold is released, and so is what a late
// copy of its acquire takes. For an owner's further acquire, one count is taken back.
func (a *lockRequest) giveBack(h *hold.Hold) {
	if h == a.own {
		a.undo()
		return
	}
	h.Apply(hold.ClosedToRelease)
	if a.granted = h; a.copyPending {
		a.undoCopies(a)
	}
}

// takeBack implements kind.
func (a *lockRequest) takeBack(number int64, _ bool) {
	keep := int64(0)
	if h := a.granted; h != nil {
		if !h.IsGone() {
			return
		}
		keep = h.Token
	}
	answered := a.carrier.Acquirer.Redis.Undo(script.UndoArgs{
		Lock: a.options.Lock, Mode: a.options.Mode, Owner: a.owner, Carrier: a.carrier.Name,
		Acquire: a.number, Number: number, Keep: keep,
	})
	if answered {
		a.leaveQueue()
	}
}

// leaveQueue takes a FAIR waiter out of the queue in Redis. left is closed when it is out, and nil
// for other waiters.
func (a *lockRequest) leaveQueue() (left <-chan struct{}) {
	if a.waitsFair() {
		left = a.carrier.Acquirer.Waits.Dequeue(a.fairPlace)
	}
	return left
}

// REPLICAS n: a grant counts only if n replicas have it. Otherwise it is taken back (R32). Redis's
// WAIT tells, for the writes of its own connection, and blocks that connection. So these requests
// have connections of their own. A replica that hangs delays only commands with REPLICAS.

const (
	// how long a grant waits for replicas, if BLOCK leaves that much
	replicaTimeout    = time.Second
	minReplicaTimeout = 10 * time.Millisecond // the minimum
)

// replicaWait is how long a grant waits for replicas. end is the end of BLOCK; zero without.
func replicaWait(end time.Time) time.Duration {
	if end.IsZero() {
		return replicaTimeout
	}
	return max(min(replicaTimeout, time.Until(end)), minReplicaTimeout)
}

// undoUnreplicated takes back a grant that too few replicas have.
func (a *lockRequest) undoUnreplicated(r Result) Result {
	undo := a.undo
	switch {
	case r.Kind == Moved:
		h, _ := a.move.carry(r)
		undo = func() <-chan struct{} { return a.undoMoved(func() *hold.Hold { return h }) }
	case r.repeated:
		undo = a.undoRepeated
	}
	then := "is still releasing"
	if a.carrier.Acquirer.Holds.AwaitEnd(undo()) {
		then = "released"
	}
	return failed(refusal.Error(fmt.Sprintf("NOREPLICAS %d of %d replicas confirmed the lock in time, Leash %s it",
		r.replicas, a.options.Replicas, then)))
}
