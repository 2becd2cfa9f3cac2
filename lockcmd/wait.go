package lockcmd

import (
	"context"
	"time"
)

// blockSlack is how much longer than BLOCK an attempt, or a release that may grant the lock, may
// take when it is in progress at the end of BLOCK.
const blockSlack = time.Second

// wait queues the acquisition until it is granted the lock, its BLOCK is over, or its client is
// gone. seen is the result of its last attempt.
func (c *Carrier) wait(ctx context.Context, a *acquisition, seen result) result {
	if !c.beginWait() {
		return result{kind: failed, text: msgLimit}
	}
	defer c.endWait()
	return c.waitResult(c.await(ctx, a, seen))
}

// await is wait for a command that is counted as waiting already.
func (c *Carrier) await(ctx context.Context, a *acquisition, seen result) result {
	q := c.newQueueWait(a, seen)
	defer q.close()
	for {
		if r, over := q.next(ctx); over {
			q.granted = r.kind == granted || r.kind == moved
			return r
		}
	}
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
	c.host.Wait()
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
	s.queues.leave(w, false, true)
	if r := w.finalResult(result{kind: taken}, true); r.kind == granted {
		return r
	}
	return result{kind: failed, text: msgGone}
}
