package lockcmd

import (
	"slices"
	"sync"
)

// permitQueues are those who wait for what is not handed over: permits, and latches, by the channel where
// news of them is told. As in queues, only the head of a line looks (R18). It lets the others know:
// permits may be left for the next one, and a latch that has come to zero is open to all.
type permitQueues struct {
	mu       sync.Mutex
	byID     map[queueID][]*permitWaiter // in the order they came
	arrivals int64                       // how many have ever come
}

// permitWaiter is one command's place in a line.
type permitWaiter struct {
	id     queueID
	wake   chan struct{} // size 1: one look is due, however many reasons there are
	opened chan struct{} // closed when another's look was good for this one too
	// Guarded by lines.mu.
	arrival        int64 // in the order they came
	attemptArrival int64 // the last one's number when its look was sent
}

func newPermitQueues() *permitQueues { return &permitQueues{byID: make(map[queueID][]*permitWaiter)} }

// length is how many stand in the line.
func (q *permitQueues) length(id queueID) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.byID[id])
}

// join goes to the end of a line.
func (q *permitQueues) join(id queueID) *permitWaiter {
	w := &permitWaiter{id: id, wake: make(chan struct{}, 1), opened: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrivals++
	w.arrival = q.arrivals
	q.byID[id] = append(q.byID[id], w)
	return w
}

// beginAttempt reports whether t is to look now: only the head does.
func (q *permitQueues) beginAttempt(w *permitWaiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if queue := q.byID[w.id]; len(queue) == 0 || queue[0] != w {
		return false
	}
	select { // whatever woke it until now is served by this look; what comes later deserves another
	case <-w.wake:
	default:
	}
	w.attemptArrival = q.arrivals
	return true
}

// openAll lets all go who stood in the line with t when its look was sent.
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

// leave takes t out of its line. The next one looks if something is left for it, as far as t knows,
// or if t was woken and has not looked since.
func (q *permitQueues) leave(w *permitWaiter, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.byID[w.id]
	i := slices.Index(queue, w)
	if i < 0 {
		return // it was let go
	}
	queue = slices.Delete(queue, i, i+1)
	q.byID[w.id] = queue
	if len(queue) == 0 {
		delete(q.byID, w.id)
		return
	}
	if i == 0 && (more || len(w.wake) > 0) {
		queue[0].wakeUp()
	}
}

// wake lets the head of the line look.
func (q *permitQueues) wake(id queueID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if queue := q.byID[id]; len(queue) > 0 {
		queue[0].wakeUp()
	}
}

// wakeAll lets everybody see that something has changed.
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
