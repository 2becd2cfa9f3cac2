package lockcmd

import (
	"context"
	"time"
)

// blockSlack is how long a look, or a release that may grant the lock, may still take to be
// answered when it is on its way as BLOCK ends.
const blockSlack = time.Second

// wait queues t until it is granted the lock, its BLOCK is over, or its client is gone. seen is
// what its last look brought.
func (c *Carrier) wait(ctx context.Context, a *acquisition, seen result) result {
	if !c.beginWait() {
		return result{kind: failed, text: msgLimit}
	}
	defer c.endWait()
	return c.waitResult(c.await(ctx, a, seen))
}

// await is wait for a command that waits already.
func (c *Carrier) await(ctx context.Context, a *acquisition, seen result) result {
	q := c.newQueueWait(a, seen)
	defer q.close()
	for {
		if r, over := q.next(ctx); over {
			return r
		}
	}
}

// beginWait counts a command of the carrier's that waits from now on, and tells the host. It fails
// when as many wait as may; else endWait must follow.
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
	c.host.Wait()
	c.guard(1)
	return true
}

func (c *Carrier) endWait() {
	c.endCommandWait()
	c.service.stats.waiters.Add(-1)
	c.guard(-1)
}

// attemptDeadline is when a look must be answered.
func attemptDeadline(deadline, end time.Time) time.Time {
	if grace := end.Add(blockSlack); !end.IsZero() && grace.Before(deadline) {
		return grace
	}
	return deadline
}

// finalResult is the result of a wait that is over: the lock, if it was given in the last moment. known
// says that Redis has called it taken since the wait began; if it never answered, that is the
// answer.
func (w *waiter) finalResult(seen result, known bool) result {
	select {
	case r := <-w.granted:
		return r
	default:
	}
	if seen.kind == busy && known {
		// the wait is over, and nothing is known against the lock's being taken still
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

// abandon leaves the queue for a client that is gone. What was given to it is given back by the
// caller's settle, which sees the same ctx.
func (w *waiter) abandon(s *Service) result {
	s.queues.leave(w, false, true)
	if r := w.finalResult(result{kind: taken}, true); r.kind == granted {
		return r
	}
	return result{kind: failed, text: msgGone}
}
