package wait

import "leash/lockcmd/script"

// A release that hands a lock over claims the head of its queue first. While it is claimed, the
// waiter does not attempt. The claim ends with a grant or without one.

// MaxHandovers is how many hand-overs in a row happen while no other Leash waits. Then clients that
// know no turns get a chance, such as those of Redisson.
const MaxHandovers = 16

// Claim returns the head of the queue that the release of a hold in that mode is to grant the lock
// to (R21). With FAIR waiters it is the one that came first. ok is false when there is none, when
// it attempts itself, or when it wants another mode. handovers is the number of hand-overs in a row
// up to the hold. at is where the head stands. Grant or Unclaim ends a claim.
func (q *Queues[R]) Claim(lock script.Lock, mode *script.Mode, handovers int) (w *Waiter[R], at Position, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.counts[lock] == 0 { // the usual case
		return nil, at, false
	}
	k := q.fair[lock]
	if k == nil || mode.Queue == nil {
		k = q.byID[QueueOf(lock, mode)]
	}
	if k == nil {
		return nil, at, false
	}
	w = k.waiters[0]
	at = k.position()
	switch {
	case w.state != queued || !w.Request.TakesFrom(mode):
		return nil, at, false
	case handovers >= MaxHandovers && (at.Place == script.PlaceFirst || k.others == 0):
		return nil, at, false
	}
	w.state = claimed
	return w, at, true
}

// Grant gives a grant to a claimed waiter. It fails when the waiter has left; then nobody has the
// grant. copyPending says that a copy of the hand-over may still be on its way.
func (q *Queues[R]) Grant(w *Waiter[R], r R, copyPending bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state != claimed {
		return false
	}
	w.copyPending = w.copyPending || copyPending
	w.state = granted
	if k := q.byID[w.QueueID]; k != nil {
		k.others = r.Outcome().Others
	}
	q.noteGrant(w)
	w.granted <- r
	return true
}

// Unclaim ends the claim without a grant. It fails when the waiter has left. The waiter attempts
// again unless the release has told everybody that the lock is free.
func (q *Queues[R]) Unclaim(w *Waiter[R], copyPending, told bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state != claimed {
		return false
	}
	w.copyPending = w.copyPending || copyPending
	w.state = queued
	if !told || w.wokenClaimed {
		w.wokenClaimed = false
		w.wakeUp()
	}
	return true
}
