package lockcmd

import "leash/lockcmd/script"

// A release that hands a lock over claims the head of its queue first. While it is claimed, the
// waiter does not attempt. The claim ends with a grant or without one.

// maxHandovers is how many hand-overs in a row happen while no other Leash waits. Then clients that
// know no turns get a chance, such as those of Redisson.
const maxHandovers = 16

// claim returns the head of the queue that the release of h is to grant the lock to (R21). With
// FAIR waiters it is the one that came first. ok is false when there is none, when it attempts
// itself, or when it wants another mode. handovers is the number of hand-overs in a row up to h.
// at is where it stands. grant or unclaim ends a claim.
func (q *waitQueues) claim(h *hold, handovers int) (w *waiter, at position, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counts[h.lock()] == 0 { // the usual case
		return nil, at, false
	}
	queue := q.fair[h.lock()]
	if queue == nil || h.mode().Queue == nil {
		queue = q.byID[queueID{h.lock(), h.mode().Channel(h.key())}]
	}
	if queue == nil {
		return nil, at, false
	}
	w = queue.waiters[0]
	at = queue.position()
	switch {
	case w.state != waiterQueued || !w.request.takesFrom(h.mode()):
		return nil, at, false
	case handovers >= maxHandovers && (at.place == script.PlaceFirst || queue.others == 0):
		return nil, at, false
	}
	w.state = waiterClaimed
	return w, at, true
}

// grant gives a grant to a claimed waiter. It fails when the waiter has left; then nobody has the
// grant. copyPending says that a copy of the hand-over may still be on its way.
func (q *waitQueues) grant(w *waiter, r result, copyPending bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state != waiterClaimed {
		return false
	}
	w.copyPending = w.copyPending || copyPending
	w.state = waiterGranted
	if queue := q.byID[w.queueID]; queue != nil {
		queue.others = r.others
	}
	q.beginTurn(w)
	w.granted <- r
	return true
}

// unclaim ends the claim without a grant. It fails when the waiter has left. The waiter attempts
// again unless the release has told everybody that the lock is free.
func (q *waitQueues) unclaim(w *waiter, copyPending, told bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state != waiterClaimed {
		return false
	}
	w.copyPending = w.copyPending || copyPending
	w.state = waiterQueued
	if !told || w.wokenClaimed {
		w.wokenClaimed = false
		w.wakeUp()
	}
	return true
}
