package lockcmd

import (
	"slices"
	"sync"
	"time"
)

const (
	// how often in a row a lock goes from one waiter of this Leash to the next before other Leashes
	// get a chance
	maxHandovers = 16
	// for how long the next one then does not look, if there are others: they hear of it as late as
	// we do
	fleetPause    = 2 * time.Millisecond
	maxFleetPause = time.Second // until goOn
)

// waitQueues are the waiters of this Leash, in the order they came. Only the head of a queue looks at
// the lock (R18), and when it got in to share it, the next one does if it wants to share it too.
type waitQueues struct {
	mu   sync.Mutex
	byID map[queueID]*waitQueue
	// all FAIR waiters of a lock, each of whom stands in a line of its owner's too
	fair   map[lockID]*waitQueue
	counts map[lockID]int // of waiters, in all lines of a lock

	fleetPause time.Duration // immutable; courtesy but in tests
}

// queueID is what a queue is known by: a lock, and where its releases are told to those who wait.
// Waiters for another kind of lock on the same key stand apart: they cannot get in before or behind
// these, only instead of them.
type queueID struct {
	lockID
	channel string
}

// queueID is where t's waiter stands. A FAIR one stands with those of its owner only: its place among
// others is Redis's matter.
func (a *acquisition) queueID() queueID {
	channel := a.options.mode.channel(a.options.key)
	if a.options.mode.fair {
		channel += ":" + a.owner
	}
	return queueID{a.options.lock(), channel}
}

type waitQueue struct {
	waiters []*waiter
}

// waiter is one command that waits.
type waiter struct {
	acquisition *acquisition
	wake        chan struct{} // size 1: one look is due, however many reasons there are
	granted     chan result   // size 1: the one grant made inside a release
	// Guarded by queues.mu.
	state       waiterState
	copyPending bool      // a copy of a hand-over to it may still be on its way
	pauseUntil  time.Time // until when it does not look: it is the turn of those on other Leashes
}

type waiterState int

const (
	waiterQueued  waiterState = iota
	waiterTrying              // its try is on its way
	waiterClaimed             // a release on its way may grant it the lock
	waiterGranted             // a release has, the result is in gift
	waiterLeft                // not in the queue any more
)

func newWaitQueues() *waitQueues {
	return &waitQueues{byID: make(map[queueID]*waitQueue), fair: make(map[lockID]*waitQueue), counts: make(map[lockID]int), fleetPause: fleetPause}
}

// waiting reports whether anybody stands in a line.
func (q *waitQueues) waiting(id queueID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byID[id] != nil
}

// join puts a try at the end of its queue.
func (q *waitQueues) join(a *acquisition) *waiter {
	w := &waiter{acquisition: a, wake: make(chan struct{}, 1), granted: make(chan result, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	addWaiter(q.byID, a.queueID(), w)
	if a.options.mode.fair {
		addWaiter(q.fair, a.options.lock(), w)
	}
	q.counts[a.options.lock()]++
	return w
}

// addWaiter puts w at the end of a line.
func addWaiter[K comparable](queues map[K]*waitQueue, id K, w *waiter) {
	k := queues[id]
	if k == nil {
		k = &waitQueue{}
		queues[id] = k
	}
	k.waiters = append(k.waiters, w)
}

// removeWaiter takes w out of a line in which it may stand. next is who stands first after w did; nil when
// there is none.
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

// beginAttempt reports whether w is to look at the lock now: only the head does, and not while a release
// may grant it the lock, nor in a pause, of which rest is what is left.
func (q *waitQueues) beginAttempt(w *waiter) (ok bool, rest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byID[w.acquisition.queueID()].waiters[0] != w || w.state != waiterQueued {
		return false, 0
	}
	if rest = time.Until(w.pauseUntil); rest > 0 {
		return false, rest
	}
	select { // whatever woke it until now is served by this look; what comes later deserves another
	case <-w.wake:
	default:
	}
	w.state = waiterTrying
	w.acquisition.copyPending = w.acquisition.copyPending || w.copyPending
	return true, 0
}

// isHead reports whether w stands first in its line.
func (q *waitQueues) isHead(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.byID[w.acquisition.queueID()]
	return queue != nil && queue.waiters[0] == w
}

// endAttempt says that w's look is over, and that w waits on.
func (q *waitQueues) endAttempt(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.state = waiterQueued
}

// leave takes w out of its queue. It fails while a release may grant it the lock, unless forced:
// then that grant is given back by whoever makes it. A head that leaves without the lock passes the
// wake-up on, and so does one that shares it with the next.
func (q *waitQueues) leave(w *waiter, took, force bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case w.state == waiterLeft:
		return true
	case w.state == waiterClaimed && !force:
		return false
	}
	took = took || w.state == waiterGranted
	w.acquisition.copyPending = w.acquisition.copyPending || w.copyPending
	w.state = waiterLeft
	id := w.acquisition.queueID()
	if next := removeWaiter(q.byID, id, w); next != nil && (!took || w.shares() && next.shares()) {
		next.wakeUp()
	}
	removeWaiter(q.fair, id.lockID, w)
	if q.counts[id.lockID]--; q.counts[id.lockID] == 0 {
		delete(q.counts, id.lockID)
	}
	return true
}

func (w *waiter) shares() bool { return w.acquisition.options.mode.shared }

// wake lets the head of a line look at the lock.
func (q *waitQueues) wake(id queueID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.byID[id]; k != nil {
		k.waiters[0].wakeUp()
	}
}

// wakeAll lets every waiter see that something has changed.
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

// claim is the head of the line for a hold that is released, to be granted the lock by its release
// (R21); if any wait FAIR, who of them came first. It is not claimed, and nil as a rule, when there
// is none, when it looks for itself just now, when it wants to hold it in another mode, or when it
// is the fleet's turn: handed is how many releases in a row have granted it within, up to this
// hold. Then it pauses, until goOn. A claim ends with give or unclaim.
func (q *waitQueues) claim(h *hold, handovers int) (w *waiter, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counts[h.lock()] == 0 { // as nearly always
		return nil, false
	}
	queue := q.fair[h.lock()]
	if queue == nil || h.mode().queue == nil {
		queue = q.byID[queueID{h.lock(), h.mode().channel(h.key())}]
	}
	if queue == nil {
		return nil, false
	}
	w = queue.waiters[0]
	switch {
	case w.state != waiterQueued || w.acquisition.own != nil || w.acquisition.options.replicas > 0 || !h.mode().handsOverTo(w.acquisition.options.mode):
		return nil, false
	case handovers >= maxHandovers && w.acquisition.options.mode.fair: // whose turn it is Redis says
		return nil, false
	case handovers >= maxHandovers:
		w.pauseUntil = time.Now().Add(maxFleetPause)
		return w, false
	}
	w.state = waiterClaimed
	return w, true
}

// endPause ends the pause of a waiter, as soon as others have had time to look; at once if there are
// none.
func (q *waitQueues) endPause(w *waiter, alone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.pauseUntil = time.Now()
	if !alone {
		w.pauseUntil = w.pauseUntil.Add(q.fleetPause)
	}
	w.wakeUp()
}

// grant hands a grant to a claimed waiter. It fails when the waiter has left: the grant is then
// nobody's. late says that a copy of the hand-over may still be on its way.
func (q *waitQueues) grant(w *waiter, r result, copyPending bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.copyPending = w.copyPending || copyPending
	if w.state != waiterClaimed {
		return false
	}
	w.state = waiterGranted
	w.granted <- r
	return true
}

// unclaim lets a claimed waiter go on by itself. It fails when the waiter has left.
func (q *waitQueues) unclaim(w *waiter, copyPending bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.copyPending = w.copyPending || copyPending
	if w.state != waiterClaimed {
		return false
	}
	w.state = waiterQueued
	w.wakeUp()
	return true
}

// unfair is how many wait for the lock but not FAIR.
func (q *waitQueues) unfair(lock lockID) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.counts[lock]
	if queue := q.fair[lock]; queue != nil {
		n -= len(queue.waiters)
	}
	return n
}

// length is how many wait for the lock, in whatever line.
func (q *waitQueues) length(lock lockID) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts[lock]
}
