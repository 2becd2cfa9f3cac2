package hold

import (
	"time"

	"leash/internal/guard"
	"leash/lockcmd/script"
)

// MAXHOLD and IDLE take a hold from its owner. The client has agreed to them, so the hold is
// released instead of left to expire (R28).
//
// IDLE catches clients that are frozen, or vanished behind a load balancer, while their connections
// live. A carrier has one timer for all its holds with IDLE. It fires when the first of them may be
// over. What the client sends before that costs nothing here.

// Evict takes a hold from its owner. It reports the loss first and then ends the hold, whatever
// else is in progress about it. It does not block. It returns false when h is not held any more.
func (h *Hold) Evict(reason string) bool {
	h.Carrier.mu.Lock()
	ch, ok := h.evictLocked(reason)
	h.Carrier.mu.Unlock()
	h.Carrier.registry.follow(ch)
	return ok && ch.to == ending
}

// evictLocked changes the state of h. Nobody loses a lease that is over.
func (h *Hold) evictLocked(reason string) (ch Change, ok bool) {
	if h.leaseOverAndIdleLocked() {
		return h.applyLocked(Dropped, "")
	}
	return h.applyLocked(evicted, reason)
}

// minLeaseSpare is the least time by which a lease is longer than MAXHOLD, so that the holder can
// be told first.
const minLeaseSpare = time.Second

// CapLease shortens a lease to a little more than what is left of MAXHOLD. It then ends even if no
// connection carries it.
func CapLease(lease, left time.Duration) time.Duration {
	left = max(left, 0)
	return min(lease, left+left/16+minLeaseSpare)
}

// CapLease shortens a lease of h by what is left of its own MAXHOLD.
func (h *Hold) CapLease(lease time.Duration) time.Duration {
	if left := h.MaxHoldLeft(time.Now()); left < script.MaxTTL {
		return CapLease(lease, left)
	}
	return lease
}

// MaxHoldLeft is what is left of MAXHOLD; script.MaxTTL without one.
func (h *Hold) MaxHoldLeft(now time.Time) time.Duration {
	if limit := h.Details().MaxHoldEnd; !limit.IsZero() {
		return limit.Sub(now)
	}
	return script.MaxTTL
}

// startTimerLocked starts the time of MAXHOLD.
func (h *Hold) startTimerLocked() {
	if limit := h.readExtra().maxHoldEnd; !limit.IsZero() {
		r := h.Carrier.registry
		h.extra.maxHoldTimer = time.AfterFunc(time.Until(limit), guard.Func(r.Log, "MAXHOLD", func() {
			r.Service.Spawn(func() { h.Evict(ReasonMaxHold) })
		}))
	}
}

// idleConfirm is when an idle client is checked again. A goroutine may have read its command from
// the socket and not have run since.
const idleConfirm = 200 * time.Millisecond

// idleCheck is guarded by Carrier.mu.
type idleCheck struct {
	timer *time.Timer // nil before the first hold with IDLE
	at    time.Time   // when it fires; zero when it is not set
	// when the client was found idle, SilentSince at that time, for a second check
	silentSince time.Time
}

// watchIdleLocked starts IDLE for h.
func (c *Carrier) watchIdleLocked(h *Hold) {
	idle := h.readExtra().terms.Idle
	if idle == 0 {
		return
	}
	switch at := time.Now().Add(idle); {
	case c.idle.timer == nil:
		c.idle.timer = time.AfterFunc(idle, guard.Func(c.registry.Log, "IDLE", c.checkIdle))
		c.idle.at = at
	case c.idle.at.IsZero(), at.Before(c.idle.at):
		c.idle.timer.Reset(idle)
		c.idle.at = at
	}
}

// checkIdle ends the holds whose IDLE is over. It takes all of them before the first loss is
// reported, because that may end the connection.
func (c *Carrier) checkIdle() {
	silent := c.silence.SilentSince()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle.at = time.Time{}
	if c.ended {
		return
	}
	var next time.Duration
	var changes []Change
	confirmed := !silent.IsZero() && silent.Equal(c.idle.silentSince)
	c.idle.silentSince = time.Time{}
	for _, h := range c.holdsLocked() {
		idle := h.readExtra().terms.Idle
		if idle == 0 || h.state == ending {
			continue
		}
		left := idleLeft(idle, silent)
		if left <= 0 && !confirmed {
			left, c.idle.silentSince = idleConfirm, silent
		}
		if left <= 0 {
			if ch, ok := h.evictLocked(ReasonIdle); ok {
				changes = append(changes, ch)
				continue
			}
			left = idleConfirm // a release is in progress
		}
		if next == 0 || left < next {
			next = left
		}
	}
	if next > 0 {
		c.idle.at = time.Now().Add(next)
		c.idle.timer.Reset(next)
	}
	if len(changes) > 0 {
		c.registry.Service.Spawn(func() { c.registry.follow(changes...) })
	}
}

// idleLeft is how long a client that is silent since then may go on so. silent is zero while a
// command is in progress: the client's silence begins after the answer.
func idleLeft(idle time.Duration, silent time.Time) time.Duration {
	if silent.IsZero() {
		return idle
	}
	return idle - time.Since(silent)
}
