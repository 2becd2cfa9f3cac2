package lockcmd

import (
	"context"
	"math/rand/v2"
	"time"
)

// blockOption says whether a command waits and how long; 0 is for ever.
type blockOption struct {
	waits bool
	block time.Duration
}

// permitAttempt makes one attempt. behind is about the waiters behind it on this Leash.
type permitAttempt func(until time.Time, behind string) result

// attemptOrWait attempts once and then waits, if p says so. Without first it goes behind present
// waiters and attempts only when there are none (R18).
func (c *Carrier) attemptOrWait(ctx context.Context, id queueID, p blockOption, first bool, attempt permitAttempt) result {
	s := c.service
	r, lastMessage := result{kind: taken}, int64(0)
	var end time.Time
	if p.waits && p.block > 0 {
		end = time.Now().Add(p.block)
	}
	if first || !p.waits || s.permitQueues.length(id) == 0 {
		lastMessage = s.events.LastMessage(id.channel)
		r = attempt(attemptDeadline(s.deadline(), end), behindNone)
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

// waitInLine waits until an attempt has another result than taken or busy, until end (zero for
// none), or until the client is gone. seen is the result of the last attempt. lastMessage is the
// last message on the channel before that attempt, 0 if there was none.
func (c *Carrier) waitInLine(
	ctx context.Context, id queueID, end time.Time, seen result, lastMessage int64, attempt permitAttempt,
) result {
	s := c.service
	w := s.permitQueues.join(id)
	more := true // something may be left for the waiters behind
	defer func() { s.permitQueues.leave(w, more) }()
	ready := s.events.Subscribe(id.channel, id.lockID.inRedis())
	defer s.events.Unsubscribe(id.channel, true)
	if seen.kind == taken && lastMessage != 0 && lastMessage == s.events.LastMessage(id.channel) {
		ready = nil // no message was missed since that attempt
	}

	known := seen.kind == taken
	over := make(<-chan time.Time) // no end
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
		case <-ready: // no message can be missed now, so attempt again (R17)
			ready = nil
		case <-w.wake:
		case <-w.reserved: // for another Leash, which may be dead
			again.Reset(minReservation + rand.N(minReservation/5))
			continue
		case <-again.C:
		}
		if s.draining.Load() {
			return w.finalResult(result{kind: failed, text: msgDraining}, true)
		}
		if s.permitQueues.beginAttempt(w) {
			seen = attempt(attemptDeadline(s.deadline(), end), s.permitQueues.behind(w))
			known = known || seen.kind == taken
			if seen.kind != taken && seen.kind != busy {
				more = seen.kind != granted || seen.permitsLeft > 0
				if seen.kind == granted {
					s.permitQueues.took(w)
				}
				if seen.kind == granted && seen.forAll {
					s.permitQueues.openAll(w)
				}
				return seen
			}
		}
		again.Reset(s.nextAttempt(seen, rand.Float64()))
	}
}

// finalResult is the result of a wait that is over. seen is the result of its last attempt. known
// says that Redis has answered since the wait began.
func (w *permitWaiter) finalResult(seen result, known bool) result {
	select {
	case <-w.opened:
		return result{kind: granted}
	default:
	}
	if seen.kind == busy && known {
		seen.text = "" // as far as is known, it is still taken
	}
	return seen
}

// canAnswer reports whether the client can still be told of a grant. Grant and disconnect are
// decided under the carrier's mutex (R19).
func (c *Carrier) canAnswer(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ended && ctx.Err() == nil
}
