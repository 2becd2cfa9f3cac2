package lockcmd

import (
	"context"
	"math/rand/v2"
	"time"
)

// queueWait is the wait of one acquisition in its queue: what may wake it, and what is known so
// far. It belongs to one goroutine.
type queueWait struct {
	service     *Service
	acquisition *acquisition
	waiter      *waiter
	wanted      *wantedNotifier
	channel     string
	end         time.Time // end of BLOCK; zero without
	seen        result    // result of the last attempt
	known       bool      // Redis has said "taken" since the wait began
	granted     bool      // the wait ended with the lock
	blockOver   bool      // BLOCK is over; only blockSlack is left

	blockEnd   <-chan time.Time
	unblocked  <-chan struct{}
	subscribed <-chan struct{} // closed once no message can be missed; then nil
	blockTimer *time.Timer     // nil without an end
	timer      *time.Timer
}

// newQueueWait adds the acquisition to its queue. The caller must call close.
func (c *Carrier) newQueueWait(a *acquisition, seen result) *queueWait {
	s := c.service
	q := &queueWait{service: s, acquisition: a, waiter: s.queues.join(a), channel: a.queueID().channel, seen: seen, known: seen.kind == taken}
	s.reportWanted(a.options.lock())
	q.wanted = s.newWantedNotifier(q.waiter, seen.token)
	q.subscribed = s.events.Subscribe(q.channel, a.options.lock().inRedis())
	if seen.kind == taken && a.lastMessage != 0 && a.lastMessage == s.events.LastMessage(q.channel) {
		q.subscribed = nil // no message was missed since the first attempt
	}
	q.unblocked = c.unblocked()
	if a.options.block > 0 {
		q.end = a.end
		q.blockTimer = time.NewTimer(time.Until(a.end))
		q.blockEnd = q.blockTimer.C
	}
	q.timer = time.NewTimer(s.nextAttempt(seen, rand.Float64()))
	return q
}

// close also takes out a waiter whose attempt panicked. Otherwise all behind it would wait for
// ever.
func (q *queueWait) close() {
	a, s := q.acquisition, q.service
	s.queues.leave(q.waiter, false, true)
	if !q.granted && !a.options.mode.Fair && !s.queues.waiting(a.queueID()) {
		s.leaveTurns(a.options.lock(), a.options.mode)
	}
	q.timer.Stop()
	if q.blockTimer != nil {
		q.blockTimer.Stop()
	}
	q.service.events.Unsubscribe(q.channel, !q.acquisition.options.mode.Fair)
	q.wanted.timer.Stop()
}

// next waits for the next event and attempts if that may help. over reports the end of the wait,
// with its result.
func (q *queueWait) next(ctx context.Context) (r result, over bool) {
	s, w, woken := q.service, q.waiter, false
	select {
	case <-ctx.Done():
		return w.abandon(s), true
	case <-q.wanted.timer.C:
		q.wanted.publishIfHead()
		return r, false
	case <-q.blockEnd:
		return q.finish(q.blockOver)
	case <-q.unblocked:
		q.unblocked = nil
		return q.finish(false)
	case r := <-w.granted:
		s.queues.leave(w, true, false)
		return r, true
	case <-q.subscribed: // no release can be missed now, so attempt again (R17)
		q.subscribed = nil
	case <-w.wake:
		woken = true
	case <-w.reserved: // for another Leash, which may be dead
		q.timer.Reset(minReservation + rand.N(minReservation/5))
		return r, false
	case <-q.timer.C:
	}
	if r, over = q.attempt(woken); !over {
		q.timer.Reset(s.nextAttempt(q.seen, rand.Float64()))
	}
	return r, over
}

// finish leaves the queue at the end of BLOCK. If a release is about to grant the lock, it stays
// for blockSlack, unless must is set.
func (q *queueWait) finish(must bool) (r result, over bool) {
	if q.service.queues.leave(q.waiter, false, must) {
		return q.waiter.finalResult(q.seen, q.known), true
	}
	q.blockOver, q.blockEnd = true, time.After(blockSlack)
	return r, false
}

// attempt asks Redis if this waiter may attempt now.
func (q *queueWait) attempt(woken bool) (r result, over bool) {
	s, w := q.service, q.waiter
	if s.draining.Load() && s.queues.leave(w, false, false) {
		return w.drainedResult(), true
	}
	if q.blockOver && s.queues.leave(w, false, false) {
		return w.finalResult(q.seen, q.known), true
	}
	if !s.queues.beginAttempt(w) {
		return r, false
	}
	q.seen = q.acquisition.send(attemptDeadline(s.deadline(), q.end))
	q.known = q.known || q.seen.kind == taken
	if q.seen.kind != taken && q.seen.kind != busy { // no release may claim w before it has left
		s.queues.leave(w, q.seen.kind == granted || q.seen.kind == moved, true)
		return q.seen, true
	}
	s.queues.endAttempt(w)
	q.wanted.noteAttempt(woken, q.seen.token)
	return r, false
}
