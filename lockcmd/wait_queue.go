package lockcmd

import (
	"slices"
	"sync"

	"leash/lockcmd/script"
)

// waitQueues has the waiters of this Leash, in order of arrival: for locks, permits, counters and
// latches. Only the head of a queue attempts (R18). When the head got something that leaves room
// for others, the next waiter attempts.
type waitQueues struct {
	mu   sync.Mutex
	byID map[queueID]*waitQueue
	// all FAIR waiters of a lock; each is in a queue of its owner too
	fair     map[script.Lock]*waitQueue
	counts   map[script.Lock]int // waiters in all queues of a lock
	arrivals int64               // number of waiters so far
}

// queueID names a queue: the lock and the channel on which its waiters are woken. Waiters for
// another kind of lock on the same key have a queue of their own, since both kinds exclude each
// other. Permits and counters of a semaphore share one.
type queueID struct {
	script.Lock
	channel string
}

type waitQueue struct {
	waiters []*waiter
	turnEnd int64 // arrival of the last waiter for which the turn of this Leash lasts
	others  int64 // other Leashes that waited at the last hand-over
}

// waiter is one waiting command.
type waiter struct {
	queueID
	request  waitRequest
	fair     bool          // Redis has its place among the waiters of all Leashes
	wake     chan struct{} // size 1: one attempt is due, for any number of reasons
	reserved chan struct{} // size 1: the lock is reserved for some Leash
	granted  chan result   // size 1: the grant of a hand-over, or of another's attempt
	arrival  int64         // its number in order of arrival
	// Guarded by waitQueues.mu.
	state        waiterState
	seenArrivals int64 // arrivals when its last attempt was sent
	wokenClaimed bool  // it was woken while a release had claimed it
	copyPending  bool  // a copy of a hand-over to it may still be on its way
}

type waiterState int

const (
	waiterQueued  waiterState = iota
	waiterTrying              // its attempt is in progress
	waiterClaimed             // a release in progress may grant it the lock
	waiterGranted             // a release has; granted has the result
	waiterLeft                // out of the queue; granted may have a result
)

func newWaitQueues() *waitQueues {
	return &waitQueues{byID: make(map[queueID]*waitQueue), fair: make(map[script.Lock]*waitQueue),
		counts: make(map[script.Lock]int)}
}

// waiting reports whether a queue has waiters.
func (q *waitQueues) waiting(id queueID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byID[id] != nil
}

// join appends a waiter to a queue.
func (q *waitQueues) join(id queueID, request waitRequest, fair bool) *waiter {
	w := &waiter{
		queueID: id, request: request, fair: fair,
		wake: make(chan struct{}, 1), reserved: make(chan struct{}, 1), granted: make(chan result, 1),
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrivals++
	w.arrival = q.arrivals
	addWaiter(q.byID, id, w)
	if fair {
		addWaiter(q.fair, id.Lock, w)
	}
	q.counts[id.Lock]++
	return w
}

// addWaiter appends w to a queue.
func addWaiter[K comparable](queues map[K]*waitQueue, id K, w *waiter) {
	k := queues[id]
	if k == nil {
		k = &waitQueue{}
		queues[id] = k
	}
	k.waiters = append(k.waiters, w)
}

// removeWaiter removes w from a queue. next is the new head if w was the head, else nil.
func removeWaiter[K comparable](queues map[K]*waitQueue, id K, w *waiter) (next *waiter) {
	k := queues[id]
	if k == nil {
		return nil
	}
	if k.waiters[0] == w && len(k.waiters) > 1 {
		next = k.waiters[1]
	}
	k.waiters = slices.DeleteFunc(k.waiters, func(other *waiter) bool { return other == w })
	if len(k.waiters) == 0 {
		delete(queues, id)
	}
	return next
}

// beginAttempt reports whether w attempts now, and where it stands. Only the head does, and not
// while a release may grant it the lock.
func (q *waitQueues) beginAttempt(w *waiter) (at position, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.byID[w.queueID]
	if w.state != waiterQueued || queue.waiters[0] != w {
		w.wokenClaimed = w.state == waiterClaimed
		return at, false
	}
	select { // this attempt serves all wake-ups so far
	case <-w.wake:
	default:
	}
	w.state, w.seenArrivals = waiterTrying, q.arrivals
	return queue.position(), true
}

// position is where the head stands. The caller holds mu.
func (queue *waitQueue) position() position {
	w, at := queue.waiters[0], position{place: script.PlaceTurn, behind: script.BehindLater}
	newTurn := w.arrival > queue.turnEnd // if it gets the lock
	if newTurn {
		at.place = script.PlaceFirst
	}
	switch {
	case len(queue.waiters) < 2:
		at.behind = script.BehindNobody
	case newTurn, queue.waiters[1].arrival <= queue.turnEnd: // a new turn lasts for all of them
		at.behind = script.BehindTurn
	}
	return at
}

// isHead reports whether w is the head of its queue.
func (q *waitQueues) isHead(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.byID[w.queueID]
	return queue != nil && queue.waiters[0] == w
}

// endAttempt notes that w's attempt is over and that w waits on.
func (q *waitQueues) endAttempt(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.state = waiterQueued
}

// leave takes w out of its queue, with the result of its wait. While a release may grant it the
// lock, it fails unless forced; the release then gives the grant back. The next waiter attempts
// when the head leaves with nothing, or leaves room for it.
func (q *waitQueues) leave(w *waiter, r result, force bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case w.state == waiterLeft:
		return true
	case w.state == waiterClaimed && !force:
		return false
	}
	took := r.took() || w.state == waiterGranted
	w.state = waiterLeft
	if took {
		q.beginTurn(w)
	}
	next := removeWaiter(q.byID, w.queueID, w)
	if next != nil && (!took || w.request.passesOn(next.request, r, len(w.wake) > 0)) {
		next.wakeUp()
	}
	removeWaiter(q.fair, w.Lock, w)
	if q.counts[w.Lock]--; q.counts[w.Lock] == 0 {
		delete(q.counts, w.Lock)
	}
	return true
}

// grantAll gives the result of w's attempt to all that were in the queue when it was sent. They
// leave the queue.
func (q *waitQueues) grantAll(w *waiter, r result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.byID[w.queueID]
	queue.waiters = slices.DeleteFunc(queue.waiters, func(other *waiter) bool {
		if other == w || other.arrival > w.seenArrivals {
			return false
		}
		other.state = waiterLeft
		other.granted <- r
		q.counts[w.Lock]--
		return true
	})
}

// beginTurn notes that w got the lock. If it was not within a turn of this Leash, a turn begins for
// all that wait now. The caller holds mu.
func (q *waitQueues) beginTurn(w *waiter) {
	if queue := q.byID[w.queueID]; queue != nil && w.arrival > queue.turnEnd {
		queue.turnEnd = q.arrivals
	}
}

// wake makes the head of a queue attempt. It reports whether there is one.
func (q *waitQueues) wake(id queueID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.byID[id]
	if k != nil {
		k.waiters[0].wakeUp()
	}
	return k != nil
}

// noteReserved tells the head of a queue that the lock is reserved for some Leash. If that one does
// not take it, the head attempts a little later.
func (q *waitQueues) noteReserved(id queueID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.byID[id]; k != nil {
		select {
		case k.waiters[0].reserved <- struct{}{}:
		default:
		}
	}
}

// wakeAll makes all waiters check for changes.
func (q *waitQueues) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range q.byID {
		for _, w := range k.waiters {
			w.wakeUp()
		}
	}
}

func (w *waiter) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// unfair is the number of waiters without FAIR.
func (q *waitQueues) unfair(lock script.Lock) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.counts[lock]
	if queue := q.fair[lock]; queue != nil {
		n -= len(queue.waiters)
	}
	return n
}

// length is the number of waiters for the lock, in all queues.
func (q *waitQueues) length(lock script.Lock) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts[lock]
}

// queueLength is the number of waiters in a queue.
func (q *waitQueues) queueLength(id queueID) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.byID[id]; k != nil {
		return len(k.waiters)
	}
	return 0
}
