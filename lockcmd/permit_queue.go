package lockcmd

import (
	"slices"
	"sync"
)

// permitQueues have the waiters for permits and latches, by channel. They have no hand-over. As in
// waitQueues only the head of a queue attempts (R18). It wakes the others: permits may be left for
// the next one, and a latch at zero is open to all.
type permitQueues struct {
	mu       sync.Mutex
	byID     map[queueID][]*permitWaiter // in order of arrival
	turnEnds map[queueID]int64           // arrival of the last waiter for which the turn of this Leash lasts
	arrivals int64                       // number of waiters so far
}

// permitWaiter is one waiting command.
type permitWaiter struct {
	id       queueID
	wake     chan struct{} // size 1: one attempt is due, for any number of reasons
	reserved chan struct{} // size 1: permits are reserved for some Leash
	opened   chan struct{} // closed when another's attempt was good for this one
	// Guarded by permitQueues.mu.
	arrival        int64 // its number in order of arrival
	attemptArrival int64 // arrivals when its attempt was sent
}

func newPermitQueues() *permitQueues {
	return &permitQueues{byID: make(map[queueID][]*permitWaiter), turnEnds: make(map[queueID]int64)}
}

// length is the number of waiters in a queue.
func (q *permitQueues) length(id queueID) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.byID[id])
}

// join appends a waiter to a queue.
func (q *permitQueues) join(id queueID) *permitWaiter {
	w := &permitWaiter{id: id, wake: make(chan struct{}, 1), reserved: make(chan struct{}, 1), opened: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrivals++
	w.arrival = q.arrivals
	q.byID[id] = append(q.byID[id], w)
	return w
}

// beginAttempt reports whether w attempts now. Only the head does.
func (q *permitQueues) beginAttempt(w *permitWaiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if queue := q.byID[w.id]; len(queue) == 0 || queue[0] != w {
		return false
	}
	select { // this attempt serves all wake-ups so far
	case <-w.wake:
	default:
	}
	w.attemptArrival = q.arrivals
	return true
}

// behind is about the waiters behind w, if w gets permits now.
func (q *permitQueues) behind(w *permitWaiter) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.byID[w.id]
	switch end := q.turnEnds[w.id]; {
	case len(queue) < 2:
		return behindNone
	case w.arrival > end, queue[1].arrival <= end: // a new turn lasts for all of them
		return behindTurn
	}
	return behindLater
}

// openAll lets all waiters go that were in the queue when w's attempt was sent.
func (q *permitQueues) openAll(w *permitWaiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.byID[w.id] = slices.DeleteFunc(q.byID[w.id], func(other *permitWaiter) bool {
		if other == w || other.arrival > w.attemptArrival {
			return false
		}
		close(other.opened)
		return true
	})
}

// took notes that w got permits. If that was not within a turn of this Leash, a turn begins for all
// that wait now.
func (q *permitQueues) took(w *permitWaiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.arrival > q.turnEnds[w.id] {
		q.turnEnds[w.id] = q.arrivals
	}
}

// leave takes w out of its queue. The next waiter attempts if something may be left for it, or if w
// was woken and has not attempted since.
func (q *permitQueues) leave(w *permitWaiter, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.byID[w.id]
	i := slices.Index(queue, w)
	if i < 0 {
		return // openAll let it go
	}
	queue = slices.Delete(queue, i, i+1)
	q.byID[w.id] = queue
	if len(queue) == 0 {
		delete(q.byID, w.id)
		delete(q.turnEnds, w.id)
		return
	}
	if i == 0 && (more || len(w.wake) > 0) {
		queue[0].wakeUp()
	}
}

// wake makes the head of a queue attempt. It reports whether there is one.
func (q *permitQueues) wake(id queueID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.byID[id]
	if len(queue) > 0 {
		queue[0].wakeUp()
	}
	return len(queue) > 0
}

// noteReserved tells the head of a queue that permits are reserved for some Leash. If that one does
// not take them, the head attempts a little later.
func (q *permitQueues) noteReserved(id queueID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if queue := q.byID[id]; len(queue) > 0 {
		select {
		case queue[0].reserved <- struct{}{}:
		default:
		}
	}
}

// wakeAll makes all waiters check for changes.
func (q *permitQueues) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, queue := range q.byID {
		for _, w := range queue {
			w.wakeUp()
		}
	}
}

func (w *permitWaiter) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
