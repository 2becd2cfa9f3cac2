package lockcmd

import (
	"time"

	"leash/lockcmd/script"
)

// waitRequest is what a waiter waits for. The kinds of waiters differ by it: locks, permits,
// counters, latches, and callers of MACQUIRE with the same keys.
type waitRequest interface {
	// attempt asks Redis once. An outcome that is not known at until is unknown.
	attempt(until time.Time, at position) result
	// passesOn reports whether the next waiter of the queue attempts after this one has left with
	// r. woken says that a message came since its last attempt.
	passesOn(next waitRequest, r result, woken bool) bool
	// takesFrom reports whether the release of a hold in that mode may grant it the lock (R21).
	// It is a handoverRequest then.
	takesFrom(m *script.Mode) bool
}

// position is where the head of a queue stands when it attempts.
type position struct {
	place  script.Place // PlaceFirst or PlaceTurn
	behind script.Behind
}

func (a *acquisition) attempt(until time.Time, at position) result {
	a.place = at.place
	return a.send(until)
}

// passesOn lets the next waiter share the lock, if both can.
func (a *acquisition) passesOn(next waitRequest, _ result, _ bool) bool {
	other, ok := next.(*acquisition)
	return ok && a.options.mode.Shared && other.options.mode.Shared
}

func (a *acquisition) takesFrom(m *script.Mode) bool {
	return a.own == nil && a.options.replicas == 0 && m.HandsOverTo(a.options.mode)
}

// queueID is the queue of the acquisition. A FAIR waiter is in a queue of its owner only. Redis
// keeps the order of the owners.
func (a *acquisition) queueID() queueID {
	channel := a.options.mode.Channel(a.options.key)
	if a.options.mode.Fair {
		channel += ":" + a.owner
	}
	return queueID{a.options.lock(), channel}
}

// wait is how the acquisition waits in its queue.
func (a *acquisition) wait() wait {
	wt := wait{
		queue: a.queueID(), request: a, end: a.end, turns: a.options.mode, fair: a.options.mode.Fair,
		tellsHolders: true, lastMessage: a.lastMessage,
	}
	if wt.fair { // Redis has the order of the FAIR waiters
		wt.turns = nil
	}
	return wt
}
