package lockcmd

import (
	"sync"
)

// maxHandovers is how often in a row a lock goes from one waiter of this Leash to the next before other Leashes get a chance.
const maxHandovers = 16

// queues are the waiters of this Leash, in the order they came, by lock. Only the head of a queue looks at the lock (R18).
type queues struct {
	mu     sync.Mutex
	byLock map[lockID]*queue
}

type queue struct {
	waiters []*waiter
	handed  int // grants within releases since the last release that was published
}

// waiter is one command that waits.
type waiter struct {
	try  *try
	wake chan struct{} // size 1: one look is due, however many reasons there are
	gift chan result   // size 1: the one grant made inside a release
	// Guarded by queues.mu.
	place place
	late  bool // a copy of a hand-over to it may still be on its way
}

type place int

const (
	queued  place = iota
	looking       // its try is on its way
	claimed       // a release on its way may grant it the lock
	given         // a release has, the result is in gift
	left          // not in the queue any more
)

func newQueues() *queues { return &queues{byLock: make(map[lockID]*queue)} }

// waiting reports whether anybody waits for the lock.
func (q *queues) waiting(lock lockID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byLock[lock] != nil
}

// join puts a try at the end of its lock's queue.
func (q *queues) join(t *try) *waiter {
	w := &waiter{try: t, wake: make(chan struct{}, 1), gift: make(chan result, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.byLock[t.wish.lock()]
	if k == nil {
		k = &queue{}
		q.byLock[t.wish.lock()] = k
	}
	k.waiters = append(k.waiters, w)
	return w
}

// look reports whether w is to look at the lock now: only the head does, and not while a release may grant it the lock.
func (q *queues) look(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byLock[w.try.wish.lock()].waiters[0] != w || w.place != queued {
		return false
	}
	select { // whatever woke it until now is served by this look; what comes later deserves another
	case <-w.wake:
	default:
	}
	w.place = looking
	w.try.late = w.try.late || w.late
	return true
}

// looked says that w's look is over.
func (q *queues) looked(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.place = queued
}

// leave takes w out of its queue. It fails while a release may grant it the lock, unless forced: then that grant is given
// back by whoever makes it. A head that leaves without the lock passes the wake-up on.
func (q *queues) leave(w *waiter, took, force bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place == claimed && !force {
		return false
	}
	took = took || w.place == given
	w.try.late = w.try.late || w.late
	w.place = left
	lock := w.try.wish.lock()
	k := q.byLock[lock]
	for i, other := range k.waiters {
		if other != w {
			continue
		}
		k.waiters = append(k.waiters[:i:i], k.waiters[i+1:]...)
		if i == 0 && !took && len(k.waiters) > 0 {
			k.waiters[0].rouse()
		}
		break
	}
	if len(k.waiters) == 0 {
		delete(q.byLock, lock)
	}
	return true
}

// wake lets the head of the lock's queue look at the lock.
func (q *queues) wake(lock lockID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.byLock[lock]; k != nil {
		k.waiters[0].rouse()
	}
}

// wakeAll lets every waiter see that something has changed.
func (q *queues) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range q.byLock {
		for _, w := range k.waiters {
			w.rouse()
		}
	}
}

func (w *waiter) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// claim is the head of the lock's queue, to be granted the lock by a release (R21); nil when there is none, when it looks for itself
// just now, when it wants to hold it in another mode, or when it is the fleet's turn. A claim ends with give or unclaim.
func (q *queues) claim(lock lockID, m *mode) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.byLock[lock]
	if line == nil {
		return nil
	}
	w := line.waiters[0]
	if line.handed >= maxHandovers || w.place != queued || w.try.own != nil || w.try.wish.mode != m {
		line.handed = 0
		return nil
	}
	line.handed++
	w.place = claimed
	return w
}

// give hands a grant to a claimed waiter. It fails when the waiter has left: the grant is then nobody's. late says that a copy of
// the hand-over may still be on its way.
func (q *queues) give(w *waiter, r result, late bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.late = w.late || late
	if w.place != claimed {
		return false
	}
	w.place = given
	w.gift <- r
	return true
}

// unclaim lets a claimed waiter go on by itself. It fails when the waiter has left.
func (q *queues) unclaim(w *waiter, late bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.late = w.late || late
	if w.place != claimed {
		return false
	}
	w.place = queued
	w.rouse()
	return true
}

// length is how many wait for the lock.
func (q *queues) length(lock lockID) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.byLock[lock]; k != nil {
		return len(k.waiters)
	}
	return 0
}
