package lockcmd

import (
	"context"
	"math/rand/v2"
	"time"
)

// patience is whether and how long a command waits; 0 is for ever.
type patience struct {
	waits bool
	block time.Duration
}

// lookOrStand looks once, and then waits in a line if p says so. first says to look although others
// stand there already: else those who wait do so behind them (R18).
func (c *Carrier) lookOrStand(ctx context.Context, id lineID, p patience, first bool, look func(until time.Time) result) result {
	s := c.service
	r, silence := result{kind: taken}, int64(0)
	var end time.Time
	if p.waits && p.block > 0 {
		end = time.Now().Add(p.block)
	}
	if first || !p.waits || s.lines.waiting(id) == 0 {
		silence = s.ears.silence(id.channel)
		r = look(lookUntil(s.deadline(), end))
	}
	if !p.waits || !r.mayPass() {
		return r
	}
	if !c.beginWait() {
		return result{kind: failed, text: msgLimit}
	}
	defer c.endWait()
	return c.awaited(c.stand(ctx, id, end, r, silence, look))
}

// stand waits in a line until a look brings something else than "not now", the end has come, which
// is zero when there is none, or the client is gone. seen is what the last look brought, and
// silence is of before it, 0 if there was none.
func (c *Carrier) stand(
	ctx context.Context, id lineID, end time.Time, seen result, silence int64, look func(until time.Time) result,
) result {
	s := c.service
	t := s.lines.join(id)
	more := true // for whoever stands behind, as far as is known
	defer func() { s.lines.leave(t, more) }()
	ready := s.ears.listen(id.channel, id.lockID)
	defer s.ears.leave(id.channel, true)
	if seen.kind == taken && silence != 0 && silence == s.ears.silence(id.channel) {
		ready = nil // nothing was missed since that look
	}

	known := seen.kind == taken
	over := make(<-chan time.Time) // never
	if !end.IsZero() {
		timer := time.NewTimer(time.Until(end))
		defer timer.Stop()
		over = timer.C
	}
	again := time.NewTimer(s.lookAgain(seen, rand.Float64()))
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return result{kind: failed, text: msgGone}
		case <-t.opened:
			return result{kind: granted}
		case <-over:
			return t.last(seen, known)
		case <-c.unblocked():
			return t.last(seen, known)
		case <-ready: // subscribed: now nothing can be missed, so look once more (R17)
			ready = nil
		case <-t.wake:
		case <-again.C:
		}
		if s.draining.Load() {
			return t.last(result{kind: failed, text: msgDraining}, true)
		}
		if s.lines.look(t) {
			seen = look(lookUntil(s.deadline(), end))
			known = known || seen.kind == taken
			if seen.kind != taken && seen.kind != busy {
				more = seen.kind != granted || seen.rest > 0
				if seen.kind == granted && seen.open {
					s.lines.open(t)
				}
				return seen
			}
		}
		again.Reset(s.lookAgain(seen, rand.Float64()))
	}
}

// last is the result of a wait that is over, with seen as what its last look brought. known says
// that Redis has answered since the wait began.
func (t *turn) last(seen result, known bool) result {
	select {
	case <-t.opened:
		return result{kind: granted}
	default:
	}
	if seen.kind == busy && known {
		seen.text = "" // the wait is over, and nothing is known against there being nothing still
	}
	return seen
}

// present reports whether a grant can still be told. Grant and disconnect are decided under the
// carrier's mutex (R19).
func (c *Carrier) present(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ended && ctx.Err() == nil
}
