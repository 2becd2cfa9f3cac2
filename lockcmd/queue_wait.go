package lockcmd

import (
	"context"
	"math/rand/v2"
	"time"

	"leash/lockcmd/script"
)

// wait is what a command waits for, and how.
type wait struct {
	queue        queueID
	request      waitRequest
	end          time.Time    // end of BLOCK; zero for none
	turns        *script.Mode // of the list of turns (R21); nil without
	fair         bool         // as in waiter
	tellsHolders bool         // they are told that somebody waits (LOCK.NOTIFY)
	// last message on the channel before the first attempt, 0 if there was none
	lastMessage int64
}

// queueWait is the wait of one command in its queue: what may wake it, and what is known so far. It
// belongs to one goroutine.
type queueWait struct {
	wait
	service   *Service
	waiter    *waiter
	seen      result // result of the last attempt
	known     bool   // Redis has said "taken" since the wait began
	took      bool   // the wait ended with what was waited for
	blockOver bool   // BLOCK is over; only blockSlack is left

	blockEnd   <-chan time.Time
	unblocked  <-chan struct{}
	subscribed <-chan struct{} // closed once no message can be missed; then nil
	blockTimer *time.Timer     // nil without an end
	timer      *time.Timer

	wanted    *wantedNotifier // nil if holders are not told
	wantedDue <-chan time.Time
}

// newQueueWait adds a waiter to its queue. seen is the result of its last attempt. The caller must
// call close.
func (c *Carrier) newQueueWait(wt wait, seen result) *queueWait {
	s := c.service
	q := &queueWait{wait: wt, service: s, seen: seen, known: seen.kind == taken}
	q.waiter = s.queues.join(wt.queue, wt.request, wt.fair)
	c.noteWaiter(q.waiter)
	if wt.tellsHolders {
		s.reportWanted(wt.queue.Lock)
		q.wanted = s.newWantedNotifier(q.waiter, seen.token)
		q.wantedDue = q.wanted.timer.C
	}
	q.subscribed = s.events.Subscribe(wt.queue.channel, wt.queue.Lock)
	if seen.kind == taken && wt.lastMessage != 0 && wt.lastMessage == s.events.LastMessage(wt.queue.channel) {
		q.subscribed = nil // no message was missed since the first attempt
	}
	q.unblocked = c.unblocked()
	if !wt.end.IsZero() {
		q.blockTimer = time.NewTimer(time.Until(wt.end))
		q.blockEnd = q.blockTimer.C
	}
	q.timer = time.NewTimer(s.nextAttempt(seen, rand.Float64()))
	return q
}

// close also takes out a waiter whose attempt panicked. Otherwise all behind it would wait for
// ever. The client's next command is to find the list of turns without this waiter.
func (q *queueWait) close(ctx context.Context) {
	s := q.service
	s.queues.leave(q.waiter, result{}, true)
	if !q.took && q.turns != nil && !s.queues.waiting(q.queue) {
		awaitLeft(ctx, s.leaveTurns(q.queue, q.turns), q.end)
	}
	q.timer.Stop()
	if q.blockTimer != nil {
		q.blockTimer.Stop()
	}
	s.events.Unsubscribe(q.queue.channel, !q.fair)
	if q.wanted != nil {
		q.wanted.timer.Stop()
	}
}

// next waits for the next event and attempts if that may help. over reports the end of the wait,
// with its result.
func (q *queueWait) next(ctx context.Context) (r result, over bool) {
	s, w, woken := q.service, q.waiter, false
	select {
	case <-ctx.Done():
		return w.abandon(s), true
	case <-q.wantedDue:
		q.wanted.publishIfHead()
		return r, false
	case <-q.blockEnd:
		return q.finish(q.blockOver)
	case <-q.unblocked:
		q.unblocked = nil
		return q.finish(false)
	case r := <-w.granted:
		s.queues.leave(w, r, false)
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
	if q.service.queues.leave(q.waiter, result{}, must) {
		return q.waiter.finalResult(q.seen, q.known), true
	}
	q.blockOver, q.blockEnd = true, time.After(blockSlack)
	return r, false
}

// attempt asks Redis if this waiter may attempt now.
func (q *queueWait) attempt(woken bool) (r result, over bool) {
	s, w := q.service, q.waiter
	if s.draining.Load() && s.queues.leave(w, result{}, false) {
		return w.drainedResult(), true
	}
	if q.blockOver && s.queues.leave(w, result{}, false) {
		return w.finalResult(q.seen, q.known), true
	}
	at, ok := s.queues.beginAttempt(w)
	if !ok {
		return r, false
	}
	q.seen = q.request.attempt(attemptDeadline(s.deadline(), q.end), at)
	q.known = q.known || q.seen.kind == taken
	if !q.seen.mayChange() { // no release may claim w before it has left
		if q.seen.forAll {
			s.queues.grantAll(w, q.seen)
		}
		s.queues.leave(w, q.seen, true)
		return q.seen, true
	}
	s.queues.endAttempt(w)
	if q.wanted != nil {
		q.wanted.noteAttempt(woken, q.seen.token)
	}
	return r, false
}
