package wait

// Waiter is one waiting command.
type Waiter[R Result] struct {
	// Immutable.
	QueueID
	Request  Request[R]
	fair     bool          // Redis has its place among the waiters of all Leashes
	wake     chan struct{} // size 1: one attempt is due, for any number of reasons
	reserved chan struct{} // size 1: the lock is reserved for some Leash
	granted  chan R        // size 1: the grant of a hand-over, or of another's attempt
	arrival  int64         // its number in order of arrival

	// Guarded by Queues.mu.
	state        waiterState
	seenArrivals int64 // arrivals when its last attempt was sent
	wokenClaimed bool  // it was woken since a release claimed it, and did not attempt
	copyPending  bool  // a copy of a hand-over to it may still be on its way
}

type waiterState int

const (
	queued  waiterState = iota
	trying              // its attempt is in progress
	claimed             // a release in progress may grant it the lock
	granted             // a release has; Waiter.granted has the result
	left                // out of the queue; Waiter.granted may have a result
)

func (w *Waiter[R]) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
