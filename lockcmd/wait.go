package lockcmd

import (
	"context"
	"time"
)

// blockSlack is how much longer than BLOCK an attempt, or a release that may grant the lock, may
// take when it is in progress at the end of BLOCK.
const blockSlack = time.Second

// wait queues a waiter until it gets what it waits for, its BLOCK is over, or its client is gone.
// seen is the result of its last attempt.
func (c *Carrier) wait(ctx context.Context, wt wait, seen result) result {
	if !c.beginWait() {
		return result{kind: failed, text: msgLimit}
	}
	defer c.endWait()
	return c.waitResult(c.await(ctx, wt, seen))
}

// await is wait for a command that is counted as waiting already.
func (c *Carrier) await(ctx context.Context, wt wait, seen result) (r result) {
	q := c.newQueueWait(wt, seen)
	defer func() {
		q.close(ctx)
		r.copyPending = q.waiter.copyPending // it does not change any more
	}()
	for {
		if r, over := q.next(ctx); over {
			q.took = r.took()
			return r
		}
	}
}

// awaitLeft waits until Redis has a waiter no more, or until the client is gone. Redis may be slow,
// so it waits at most blockSlack, and ends no later than that after the end of BLOCK.
func awaitLeft(ctx context.Context, left <-chan struct{}, end time.Time) {
	timer := time.NewTimer(time.Until(attemptDeadline(time.Now().Add(blockSlack), end)))
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// blockOption says whether a command waits and how long; 0 is for ever.
type blockOption struct {
	waits bool
	block time.Duration
}

// attemptOrWait attempts once and then waits, if p says so. Without first it goes behind present
// waiters and attempts only when there are none (R18).
func (c *Carrier) attemptOrWait(ctx context.Context, wt wait, p blockOption, first bool) result {
	s, r := c.service, result{kind: taken}
	if p.waits && p.block > 0 {
		wt.end = time.Now().Add(p.block)
	}
	if first || !p.waits || !s.queues.waiting(wt.queue) {
		wt.lastMessage = s.events.LastMessage(wt.queue.channel)
		r = wt.request.attempt(attemptDeadline(s.deadline(), wt.end), position{})
	}
	if !p.waits || !r.mayChange() {
		return r
	}
	return c.wait(ctx, wt, r)
}

// beginWait counts a command as waiting and tells the host. It fails when too many commands wait.
// Otherwise endWait must follow.
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
	c.beginCommandWait()
	c.host.Watch(Waiting)
	c.guard(1)
	return true
}

func (c *Carrier) endWait() {
	c.endCommandWait()
	c.service.stats.waiters.Add(-1)
	c.guard(-1)
}

// attemptDeadline is when an attempt must be answered.
func attemptDeadline(deadline, end time.Time) time.Time {
	if grace := end.Add(blockSlack); !end.IsZero() && grace.Before(deadline) {
		return grace
	}
	return deadline
}

// finalResult is the result at the end of a wait. It is the lock, if that was granted in the last
// moment. known says that Redis has said "taken" since the wait began; without any answer, that is
// the error.
func (w *waiter) finalResult(seen result, known bool) result {
	select {
	case r := <-w.granted:
		return r
	default:
	}
	if seen.kind == busy && known {
		// as far as is known, the lock is still taken
		seen.text = ""
	}
	return seen
}

func (w *waiter) drainedResult() result {
	if r := w.finalResult(result{kind: taken}, true); r.kind == granted {
		return r
	}
	return result{kind: failed, text: msgDraining}
}

// abandon leaves the queue for a client that is gone. The caller's accept gives a last grant back,
// because it sees the same ctx.
func (w *waiter) abandon(s *Service) result {
	s.queues.leave(w, result{}, true)
	if r := w.finalResult(result{kind: taken}, true); r.kind == granted {
		return r
	}
	return result{kind: failed, text: msgGone}
}
