package lockcmd

import (
	"context"
	"math/rand/v2"
	"time"
)

// blockOption is whether and how long a command waits; 0 is for ever.
type blockOption struct {
	waits bool
	block time.Duration
}

// attemptOrWait looks once, and then waits in a line if p says so. first says to look although others
// stand there already: else those who wait do so behind them (R18).
func (c *Carrier) attemptOrWait(ctx context.Context, id queueID, p blockOption, first bool, attempt func(until time.Time) result) result {
	s := c.service
	r, lastMessage := result{kind: taken}, int64(0)
	var end time.Time
	if p.waits && p.block > 0 {
		end = time.Now().Add(p.block)
	}
	if first || !p.waits || s.permitQueues.length(id) == 0 {
		lastMessage = s.subscriber.lastMessage(id.channel)
		r = attempt(attemptDeadline(s.deadline(), end))
	}
	if !p.waits || !r.mayChange() {
		return r
	}
	if !c.beginWait() {
		return result{kind: failed, text: msgLimit}
	}
	defer c.endWait()
	return c.waitResult(c.waitInLine(ctx, id, end, r, lastMessage, attempt))
}

// waitInLine waits in a line until a look brings something else than "not now", the end has come, which
// is zero when there is none, or the client is gone. seen is what the last look brought, and
// silence is of before it, 0 if there was none.
func (c *Carrier) waitInLine(
	ctx context.Context, id queueID, end time.Time, seen result, lastMessage int64, attempt func(until time.Time) result,
) result {
	s := c.service
	w := s.permitQueues.join(id)
	more := true // for whoever stands behind, as far as is known
	defer func() { s.permitQueues.leave(w, more) }()
	ready := s.subscriber.subscribe(id.channel, id.lockID)
	defer s.subscriber.unsubscribe(id.channel, true)
	if seen.kind == taken && lastMessage != 0 && lastMessage == s.subscriber.lastMessage(id.channel) {
		ready = nil // nothing was missed since that look
	}

	known := seen.kind == taken
	over := make(<-chan time.Time) // never
	if !end.IsZero() {
		timer := time.NewTimer(time.Until(end))
		defer timer.Stop()
		over = timer.C
	}
	again := time.NewTimer(s.nextAttempt(seen, rand.Float64()))
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return result{kind: failed, text: msgGone}
		case <-w.opened:
			return result{kind: granted}
		case <-over:
			return w.finalResult(seen, known)
		case <-c.unblocked():
			return w.finalResult(seen, known)
		case <-ready: // subscribed: now nothing can be missed, so look once more (R17)
			ready = nil
		case <-w.wake:
		case <-again.C:
		}
		if s.draining.Load() {
			return w.finalResult(result{kind: failed, text: msgDraining}, true)
		}
		if s.permitQueues.beginAttempt(w) {
			seen = attempt(attemptDeadline(s.deadline(), end))
			known = known || seen.kind == taken
			if seen.kind != taken && seen.kind != busy {
				more = seen.kind != granted || seen.permitsLeft > 0
				if seen.kind == granted && seen.forAll {
					s.permitQueues.openAll(w)
				}
				return seen
			}
		}
		again.Reset(s.nextAttempt(seen, rand.Float64()))
	}
}

// finalResult is the result of a wait that is over, with seen as what its last look brought. known says
// that Redis has answered since the wait began.
func (w *permitWaiter) finalResult(seen result, known bool) result {
	select {
	case <-w.opened:
		return result{kind: granted}
	default:
	}
	if seen.kind == busy && known {
		seen.text = "" // the wait is over, and nothing is known against there being nothing still
	}
	return seen
}

// canAnswer reports whether a grant can still be told. Grant and disconnect are decided under the
// carrier's mutex (R19).
func (c *Carrier) canAnswer(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ended && ctx.Err() == nil
}
