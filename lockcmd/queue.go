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
	courtesy  = 2 * time.Millisecond
	longPause = time.Second // until goOn
)

// queues are the waiters of this Leash, in the order they came. Only the head of a queue looks at
// the lock (R18), and when it got in to share it, the next one does if it wants to share it too.
type queues struct {
	mu    sync.Mutex
	lines map[lineID]*queue
	// all FAIR waiters of a lock, each of whom stands in a line of its owner's too
	fair   map[lockID]*queue
	counts map[lockID]int // of waiters, in all lines of a lock

	courtesy time.Duration // immutable; courtesy but in tests
}

// lineID is what a queue is known by: a lock, and where its releases are told to those who wait.
// Waiters for another kind of lock on the same key stand apart: they cannot get in before or behind
// these, only instead of them.
type lineID struct {
	lockID
	channel string
}

// line is where t's waiter stands. A FAIR one stands with those of its owner only: its place among
// others is Redis's matter.
func (t *try) line() lineID {
	channel := t.wish.mode.channel(t.wish.key)
	if t.wish.mode.fair {
		channel += ":" + t.owner
	}
	return lineID{t.wish.lock(), channel}
}

type queue struct {
	waiters []*waiter
}

// waiter is one command that waits.
type waiter struct {
	try  *try
	wake chan struct{} // size 1: one look is due, however many reasons there are
	gift chan result   // size 1: the one grant made inside a release
	// Guarded by queues.mu.
	place place
	late  bool      // a copy of a hand-over to it may still be on its way
	pause time.Time // until when it does not look: it is the turn of those on other Leashes
}

type place int

const (
	queued  place = iota
	looking       // its try is on its way
	claimed       // a release on its way may grant it the lock
	given         // a release has, the result is in gift
	left          // not in the queue any more
)

func newQueues() *queues {
	return &queues{lines: make(map[lineID]*queue), fair: make(map[lockID]*queue), counts: make(map[lockID]int), courtesy: courtesy}
}

// waiting reports whether anybody stands in a line.
func (q *queues) waiting(line lineID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lines[line] != nil
}

// join puts a try at the end of its queue.
func (q *queues) join(t *try) *waiter {
	w := &waiter{try: t, wake: make(chan struct{}, 1), gift: make(chan result, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	add(q.lines, t.line(), w)
	if t.wish.mode.fair {
		add(q.fair, t.wish.lock(), w)
	}
	q.counts[t.wish.lock()]++
	return w
}

// add puts w at the end of a line.
func add[K comparable](lines map[K]*queue, id K, w *waiter) {
	k := lines[id]
	if k == nil {
		k = &queue{}
		lines[id] = k
	}
	k.waiters = append(k.waiters, w)
}

// drop takes w out of a line in which it may stand. next is who stands first after w did; nil when
// there is none.
func drop[K comparable](lines map[K]*queue, id K, w *waiter) (next *waiter) {
	k := lines[id]
	if k == nil {
		return nil
	}
	if k.waiters[0] == w && len(k.waiters) > 1 {
		next = k.waiters[1]
	}
	k.waiters = slices.DeleteFunc(k.waiters, func(other *waiter) bool { return other == w })
	if len(k.waiters) == 0 {
		delete(lines, id)
	}
	return next
}

// look reports whether w is to look at the lock now: only the head does, and not while a release
// may grant it the lock, nor in a pause, of which rest is what is left.
func (q *queues) look(w *waiter) (ok bool, rest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lines[w.try.line()].waiters[0] != w || w.place != queued {
		return false, 0
	}
	if rest = time.Until(w.pause); rest > 0 {
		return false, rest
	}
	select { // whatever woke it until now is served by this look; what comes later deserves another
	case <-w.wake:
	default:
	}
	w.place = looking
	w.try.late = w.try.late || w.late
	return true, 0
}

// first reports whether w stands first in its line.
func (q *queues) first(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.lines[w.try.line()]
	return line != nil && line.waiters[0] == w
}

// looked says that w's look is over, and that w waits on.
func (q *queues) looked(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.place = queued
}

// leave takes w out of its queue. It fails while a release may grant it the lock, unless forced:
// then that grant is given back by whoever makes it. A head that leaves without the lock passes the
// wake-up on, and so does one that shares it with the next.
func (q *queues) leave(w *waiter, took, force bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case w.place == left:
		return true
	case w.place == claimed && !force:
		return false
	}
	took = took || w.place == given
	w.try.late = w.try.late || w.late
	w.place = left
	line := w.try.line()
	if next := drop(q.lines, line, w); next != nil && (!took || w.shares() && next.shares()) {
		next.rouse()
	}
	drop(q.fair, line.lockID, w)
	if q.counts[line.lockID]--; q.counts[line.lockID] == 0 {
		delete(q.counts, line.lockID)
	}
	return true
}

func (w *waiter) shares() bool { return w.try.wish.mode.shared }

// wake lets the head of a line look at the lock.
func (q *queues) wake(line lineID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.lines[line]; k != nil {
		k.waiters[0].rouse()
	}
}

// wakeAll lets every waiter see that something has changed.
func (q *queues) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range q.lines {
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

// claim is the head of the line for a hold that is released, to be granted the lock by its release
// (R21); if any wait FAIR, who of them came first. It is not claimed, and nil as a rule, when there
// is none, when it looks for itself just now, when it wants to hold it in another mode, or when it
// is the fleet's turn: handed is how many releases in a row have granted it within, up to this
// hold. Then it pauses, until goOn. A claim ends with give or unclaim.
func (q *queues) claim(h *hold, handed int) (w *waiter, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counts[h.lock()] == 0 { // as nearly always
		return nil, false
	}
	line := q.fair[h.lock()]
	if line == nil || h.mode().queue == nil {
		line = q.lines[lineID{h.lock(), h.mode().channel(h.key())}]
	}
	if line == nil {
		return nil, false
	}
	w = line.waiters[0]
	switch {
	case w.place != queued || w.try.own != nil || w.try.wish.replicas > 0 || !h.mode().hands(w.try.wish.mode):
		return nil, false
	case handed >= maxHandovers && w.try.wish.mode.fair: // whose turn it is Redis says
		return nil, false
	case handed >= maxHandovers:
		w.pause = time.Now().Add(longPause)
		return w, false
	}
	w.place = claimed
	return w, true
}

// goOn ends the pause of a waiter, as soon as others have had time to look; at once if there are
// none.
func (q *queues) goOn(w *waiter, alone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.pause = time.Now()
	if !alone {
		w.pause = w.pause.Add(q.courtesy)
	}
	w.rouse()
}

// give hands a grant to a claimed waiter. It fails when the waiter has left: the grant is then
// nobody's. late says that a copy of the hand-over may still be on its way.
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

// unfair is how many wait for the lock but not FAIR.
func (q *queues) unfair(lock lockID) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.counts[lock]
	if line := q.fair[lock]; line != nil {
		n -= len(line.waiters)
	}
	return n
}

// length is how many wait for the lock, in whatever line.
func (q *queues) length(lock lockID) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts[lock]
}
