package wait

import (
	"cmp"
	"slices"
	"sync"

	"leash/lockcmd/script"
)

// Queues has the waiters of this Leash, in order of arrival. Only the head of a queue attempts
// (R18). When the head got something that leaves room for others, the next waiter attempts. Its
// methods do not block and are safe for concurrent use.
type Queues[R Result] struct {
	mu   sync.Mutex
	byID map[QueueID]*queue[R]
	// all FAIR waiters of a lock; each is in a queue of its owner too
	fair     map[script.Lock]*queue[R]
	counts   map[script.Lock]int // waiters in all queues of a lock
	arrivals int64               // number of waiters so far
}

type queue[R Result] struct {
	waiters []*Waiter[R]
	turnEnd int64 // arrival of the last waiter for which the turn of this Leash lasts
	others  int64 // other Leashes that waited at the last hand-over
}

func (q *Queues[R]) init() {
	q.byID, q.fair = make(map[QueueID]*queue[R]), make(map[script.Lock]*queue[R])
	q.counts = make(map[script.Lock]int)
}

// Waiting reports whether a queue has waiters.
func (q *Queues[R]) Waiting(id QueueID) bool { return q.InQueue(id) > 0 }

// InQueue is the number of waiters in a queue.
func (q *Queues[R]) InQueue(id QueueID) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byID[id].len()
}

// OfLock is the number of waiters for the lock in all queues. fair of them use FAIR.
func (q *Queues[R]) OfLock(lock script.Lock) (all, fair int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts[lock], q.fair[lock].len()
}

func (k *queue[R]) len() int {
	if k == nil {
		return 0
	}
	return len(k.waiters)
}

// First returns the first waiters for a lock in all its queues, in order of arrival.
func (q *Queues[R]) First(lock script.Lock, most int) (waiters []*Waiter[R]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counts[lock] == 0 {
		return nil
	}
	take := func(k *queue[R]) { // a queue is in order of arrival
		waiters = append(waiters, k.waiters[:min(len(k.waiters), most)]...)
	}
	if k := q.fair[lock]; k != nil {
		take(k)
	}
	for channel := range channelsOf(lock.Key) {
		if k := q.byID[QueueID{lock, channel}]; k != nil {
			take(k)
		}
	}
	slices.SortFunc(waiters, func(a, b *Waiter[R]) int { return cmp.Compare(a.arrival, b.arrival) })
	return waiters[:min(len(waiters), most)]
}

// channelsOf are the channels of the queues of a key without FAIR.
func channelsOf(key string) map[string]bool {
	channels := map[string]bool{script.PermitChannel(key): true, script.LatchChannel(key): true}
	for _, m := range script.Modes {
		channels[m.Channel(key)] = true
	}
	return channels
}

// Rests reports whether the head of a queue has attempted, or began within a turn, and neither
// attempts now nor is about to.
func (q *Queues[R]) Rests(id QueueID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.byID[id]
	if k == nil {
		return false
	}
	w := k.waiters[0]
	return w.state == queued && len(w.wake) == 0 && (w.seenArrivals > 0 || k.turnEnd > 0)
}

// join appends a waiter to a queue.
func (q *Queues[R]) join(id QueueID, request Request[R], fair bool) *Waiter[R] {
	w := &Waiter[R]{
		QueueID: id, Request: request, fair: fair,
		wake: make(chan struct{}, 1), reserved: make(chan struct{}, 1), granted: make(chan R, 1),
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
func addWaiter[K comparable, R Result](queues map[K]*queue[R], id K, w *Waiter[R]) {
	k := queues[id]
	if k == nil {
		k = &queue[R]{}
		queues[id] = k
	}
	k.waiters = append(k.waiters, w)
}

// removeWaiter removes w from a queue. next is the new head if w was the head, else nil.
func removeWaiter[K comparable, R Result](queues map[K]*queue[R], id K, w *Waiter[R]) (next *Waiter[R]) {
	k := queues[id]
	if k == nil {
		return nil
	}
	if k.waiters[0] == w && len(k.waiters) > 1 {
		next = k.waiters[1]
	}
	k.waiters = slices.DeleteFunc(k.waiters, func(other *Waiter[R]) bool { return other == w })
	if len(k.waiters) == 0 {
		delete(queues, id)
	}
	return next
}

// beginAttempt reports whether w attempts now, and where it stands. Only the head does, and not
// while a release may grant it the lock.
func (q *Queues[R]) beginAttempt(w *Waiter[R]) (at Position, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.byID[w.QueueID]
	if w.state != queued || k.waiters[0] != w {
		w.wokenClaimed = w.wokenClaimed || w.state == claimed || w.state == granted
		return at, false
	}
	select { // this attempt serves all wake-ups so far
	case <-w.wake:
	default:
	}
	w.state, w.seenArrivals = trying, q.arrivals
	return k.position(), true
}

// position is where the head stands. The caller holds mu.
func (k *queue[R]) position() Position {
	w, at := k.waiters[0], Position{Place: script.PlaceTurn, Behind: script.BehindLater}
	newTurn := w.arrival > k.turnEnd // if it gets the lock
	if newTurn {
		at.Place = script.PlaceFirst
	}
	switch {
	case len(k.waiters) < 2:
		at.Behind = script.BehindNobody
	case newTurn, k.waiters[1].arrival <= k.turnEnd: // a new turn lasts for all of them
		at.Behind = script.BehindTurn
	}
	return at
}

// isHead reports whether w is the head of its queue.
func (q *Queues[R]) isHead(w *Waiter[R]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.byID[w.QueueID]
	return k != nil && k.waiters[0] == w
}

// endAttempt notes that w's attempt is over and that w waits on.
func (q *Queues[R]) endAttempt(w *Waiter[R]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.state = queued
}

// leave takes w out of its queue, with the result of its wait; zero for none. While a release may
// grant it the lock, it fails unless forced; the release then gives the grant back. The next waiter
// attempts when the head leaves with nothing, or leaves room for it.
func (q *Queues[R]) leave(w *Waiter[R], r R, force bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case w.state == left:
		return true
	case w.state == claimed && !force:
		return false
	}
	took := w.state == granted || r.Outcome().State == Got
	w.state = left
	if took {
		q.noteGrant(w)
	}
	next := removeWaiter(q.byID, w.QueueID, w)
	if next != nil && (!took || w.Request.PassesOn(next.Request, r, len(w.wake) > 0 || w.wokenClaimed)) {
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
func (q *Queues[R]) grantAll(w *Waiter[R], r R) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.byID[w.QueueID]
	k.waiters = slices.DeleteFunc(k.waiters, func(other *Waiter[R]) bool {
		if other == w || other.arrival > w.seenArrivals {
			return false
		}
		other.state = left
		other.granted <- r
		q.counts[w.Lock]--
		return true
	})
}

// noteGrant notes that w got the lock. If it was not within a turn of this Leash, a turn begins for
// all that wait now. The caller holds mu.
func (q *Queues[R]) noteGrant(w *Waiter[R]) {
	if k := q.byID[w.QueueID]; k != nil && w.arrival > k.turnEnd {
		k.turnEnd = q.arrivals
	}
}

// Wake makes the head of a queue attempt. It reports whether there is one.
func (q *Queues[R]) Wake(id QueueID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.byID[id]
	if k != nil {
		k.waiters[0].wakeUp()
	}
	return k != nil
}

// Reserved tells the head of a queue that the lock is reserved for some Leash. If that one does not
// take it, the head attempts a little later.
func (q *Queues[R]) Reserved(id QueueID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.byID[id]; k != nil {
		select {
		case k.waiters[0].reserved <- struct{}{}:
		default:
		}
	}
}

// WakeAll makes all waiters check for changes.
func (q *Queues[R]) WakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range q.byID {
		for _, w := range k.waiters {
			w.wakeUp()
		}
	}
}
