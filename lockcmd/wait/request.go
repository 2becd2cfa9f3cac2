package wait

import (
	"time"

	"leash/lockcmd/script"
)

// Request is what a waiter waits for. The kinds of waiters differ by it: locks, permits, counters,
// latches, and callers of MACQUIRE with the same keys. R is the result of an attempt.
type Request[R Result] interface {
	// Attempt asks Redis once. An outcome that is not known at until is unknown.
	Attempt(until time.Time, at Position) R
	// PassesOn reports whether the next waiter of the queue attempts after this one has left with
	// r. woken says that a message came since its last attempt. It does not block.
	PassesOn(next Request[R], r R, woken bool) bool
	// TakesFrom reports whether the release of a hold in that mode may grant the lock to this
	// request (R21). It does not block.
	TakesFrom(m *script.Mode) bool
}

// Result is the result of an attempt or of a hand-over. The zero value must be Taken.
type Result interface {
	// Outcome is what waiting depends on.
	Outcome() Outcome
}

// Outcome is what waiting depends on in a Result.
type Outcome struct {
	State  State
	Left   time.Duration // Taken: until the holder's lease is over; 0 or less when unknown
	Token  int64         // Taken: of the last grant; 0 when unknown
	ForAll bool          // Got: all that waited when the attempt was sent have it too
	Others int64         // Got by a hand-over: other Leashes that wait
}

// mayChange reports whether waiting may bring another result.
func (o Outcome) mayChange() bool { return o.State == Taken || o.State == Busy }

// State is how an attempt ended.
type State int

// The states. After Got and Failed, waiting is over.
const (
	Taken  State = iota // somebody else has it
	Busy                // Redis did not take the request
	Got                 // the request has what it asked for
	Failed              // waiting brings nothing, or nobody knows the outcome
)

// Position is where the head of a queue stands when it attempts.
type Position struct {
	Place  script.Place // PlaceFirst or PlaceTurn
	Behind script.Behind
}

// QueueID names a queue: the lock, and the channel on which its waiters are woken. Waiters for
// another kind of lock on the same key have a queue of their own, since both kinds exclude each
// other. Permits and counters of a semaphore share one. Without a channel, only the waiter before
// it wakes a waiter.
type QueueID struct {
	script.Lock
	Channel string
}

// QueueOf is the queue of the waiters for a lock in that mode, but FAIR ones.
func QueueOf(lock script.Lock, m *script.Mode) QueueID { return QueueID{lock, m.Channel(lock.Key)} }
