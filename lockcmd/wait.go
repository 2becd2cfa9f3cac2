package lockcmd

import (
	"context"
	"math/rand/v2"
	"time"
)

// graceAfterBlock is how long a look, or a release that may grant the lock, may still take to be answered when it is on its way as
// BLOCK ends.
const graceAfterBlock = time.Second

// wait queues t until it is granted the lock, its BLOCK is over, or its client is gone. seen is what its last look brought.
func (c *Carrier) wait(ctx context.Context, t *try, seen result) result {
	if !c.beginWait() {
		return result{kind: failed, text: msgLimit}
	}
	defer c.endWait()
	return c.awaited(c.await(ctx, t, seen))
}

// await is wait for a command that waits already.
func (c *Carrier) await(ctx context.Context, t *try, seen result) result {
	s := c.service
	w := s.queues.join(t)
	s.want(t.wish.lock())
	news := s.newWanting(w)
	defer news.timer.Stop()
	channel := t.line().channel
	ready := s.ears.listen(channel, t.wish.lock())
	defer s.ears.leave(channel, !t.wish.mode.fair)
	if seen.kind == taken && t.silence != 0 && t.silence == s.ears.silence(channel) {
		ready = nil // nothing was missed since the first look
	}

	known := seen.kind == taken
	over := make(<-chan time.Time) // never
	unblocked := c.unblocked()
	var end time.Time
	ended := false // the time is over, but for the grace
	if t.wish.block > 0 {
		end = time.Now().Add(t.wish.block)
		timer := time.NewTimer(t.wish.block)
		defer timer.Stop()
		over = timer.C
	}
	again := time.NewTimer(s.lookAgain(seen, rand.Float64()))
	defer again.Stop()
	for {
		woken := false
		select {
		case <-ctx.Done():
			return w.abandon(s)
		case <-news.timer.C:
			news.tell()
			continue
		case <-over:
			if s.queues.leave(w, false, ended) {
				return w.last(seen, known)
			} // else: a release is about to say whether the lock is ours
			ended, over = true, time.After(graceAfterBlock)
			continue
		case <-unblocked:
			if unblocked = nil; s.queues.leave(w, false, false) {
				return w.last(seen, known)
			}
			ended, over = true, time.After(graceAfterBlock)
			continue
		case r := <-w.gift:
			s.queues.leave(w, true, false)
			return r
		case <-ready: // subscribed: now a release cannot be missed, so look once more (R17)
			ready = nil
		case <-w.wake:
			woken = true
		case <-again.C:
		}
		if s.draining.Load() && s.queues.leave(w, false, false) {
			return w.drained()
		}
		if ended && s.queues.leave(w, false, false) {
			return w.last(seen, known)
		}
		if s.queues.look(w) {
			seen = t.send(lookUntil(s.deadline(), end))
			known = known || seen.kind == taken
			s.queues.looked(w)
			if seen.kind != taken && seen.kind != busy {
				s.queues.leave(w, seen.kind == granted || seen.kind == moved, true)
				return seen
			}
			news.looked(woken)
		}
		again.Reset(s.lookAgain(seen, rand.Float64()))
	}
}

// beginWait counts a command of the carrier's that waits from now on, and tells the host. It fails when as many wait as may; else
// endWait must follow.
func (c *Carrier) beginWait() bool {
	s := c.service
	for n := s.stats.waiters.Load(); ; n = s.stats.waiters.Load() {
		if n >= int64(s.cfg.MaxWaiters) {
			s.stats.limited.Add(1)
			return false
		}
		if s.stats.waiters.CompareAndSwap(n, n+1) {
			break
		}
	}
	c.enterStay()
	c.host.Wait()
	c.guard(1)
	return true
}

func (c *Carrier) endWait() {
	c.leaveStay()
	c.service.stats.waiters.Add(-1)
	c.guard(-1)
}

// lookUntil is when a look must be answered.
func lookUntil(deadline, end time.Time) time.Time {
	if grace := end.Add(graceAfterBlock); !end.IsZero() && grace.Before(deadline) {
		return grace
	}
	return deadline
}

// last is the result of a wait that is over: the lock, if it was given in the last moment. known says that Redis has called it taken
// since the wait began; if it never answered, that is the answer.
func (w *waiter) last(seen result, known bool) result {
	select {
	case r := <-w.gift:
		return r
	default:
	}
	if seen.kind == busy && known {
		seen.text = "" // the wait is over, and nothing is known against the lock's being taken still
	}
	return seen
}

func (w *waiter) drained() result {
	if r := w.last(result{kind: taken}, true); r.kind == granted {
		return r
	}
	return result{kind: failed, text: msgDraining}
}

// abandon leaves the queue for a client that is gone. What was given to it is given back by the caller's settle, which sees the
// same ctx.
func (w *waiter) abandon(s *Service) result {
	s.queues.leave(w, false, true)
	if r := w.last(result{kind: taken}, true); r.kind == granted {
		return r
	}
	return result{kind: failed, text: msgGone}
}
