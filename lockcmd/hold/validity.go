package hold

import (
	"slices"
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// A session must not send anything to Redis once somebody else may have a lock that its client
// relies on (R27). The watchdog reports such a loss, but its goroutine may run late, after a
// SIGSTOP or on a busy machine. So the writer compares the time itself, right before the write.
//
// The carrier keeps one time for that. It is no later than the earliest end of its holds. Renewals
// do not change it. When it comes, EndOverdue computes the real ends, about once in two thirds of a
// TTL at most.
//
// Two kinds of holds do not count. The client knows the end of a LEASE, so that is no loss. With
// ONLOSS ERROR the client wants to go on, and is told when it next names the lock.

// SafeUntil is the time until which all holds of the carrier are safe, as far as is known. It is
// nil when no hold would end the connection. From that time on, call EndOverdue before anything is
// sent to Redis for the connection. SafeUntil takes no lock. The time it points to does not change.
func (c *Carrier) SafeUntil() *time.Time { return c.safeUntil.Load() }

// noteSafeUntilLocked notes that h is safe until that time.
func (c *Carrier) noteSafeUntilLocked(h *Hold, until time.Time) {
	if !h.endsConnection() {
		return
	}
	if known := c.safeUntil.Load(); known == nil || until.Before(*known) {
		c.safeUntil.Store(&until)
	}
}

// endsConnection reports whether the loss of h closes the connection.
func (h *Hold) endsConnection() bool { return !h.flags.Lease && !h.flags.ErrorOnLoss }

// overdueSoon is how long before SafeUntil CheckOverdue looks at the holds. A write that is not
// finished at SafeUntil ends its connection to Redis, which other sessions share.
const overdueSoon = 250 * time.Millisecond

// CheckOverdue calls EndOverdue if SafeUntil has come, or comes soon.
func (c *Carrier) CheckOverdue() {
	if until := c.SafeUntil(); until != nil && renewal.Left(*until) <= overdueSoon {
		c.EndOverdue()
	}
}

// EndOverdue ends the connection if a hold of it is over, as the watchdog would. Otherwise
// SafeUntil is later afterwards. It does not block.
func (c *Carrier) EndOverdue() {
	var earliest *time.Time
	var changes []Change
	c.mu.Lock()
	for _, h := range c.holdsLocked() {
		left, kept := h.Left()
		switch now := time.Now(); {
		case !h.state.isRenewed(), !h.endsConnection():
		case !kept && h.state == Decrementing: // the watchdog is about to report what it has found
		case left <= 0: // includes a hold that the watchdog has given up but not reported
			ch, _ := h.applyLocked(expired, renewal.ReasonSilence)
			changes = append(changes, ch)
		case earliest == nil || now.Add(left).Before(*earliest):
			until := now.Add(left) // with the wall clock's reading of now
			earliest = &until
		}
	}
	closing := c.losses.closing
	if closing == nil { // until the host knows, each caller comes here
		c.safeUntil.Store(earliest)
	}
	c.mu.Unlock()
	c.registry.follow(changes...)
	if closing != nil && !slices.ContainsFunc(changes, func(ch Change) bool { return ch.loss == closing }) {
		// another goroutine is about to do this
		c.host.End([]byte(closing.hold.Key()), closing.reason)
	}
}

// Left is how long h is safe from now on, as far as Redis has said. kept is false if the watchdog
// does not keep h.
func (h *Hold) Left() (left time.Duration, kept bool) {
	until := h.SafeUntil()
	return time.Until(until), !until.IsZero()
}

// SafeUntil is the time up to which h is safe, as far as Redis has said. It is zero if the watchdog
// does not keep h.
func (h *Hold) SafeUntil() time.Time { return h.Carrier.registry.Watchdog.Until(&h.Watch) }

// CertainFor is how long h is safe from a loss, except by BREAK or by somebody who bypasses Leash.
func (h *Hold) CertainFor() time.Duration {
	left, _ := h.Left()
	d := h.Details()
	if d.Terms.Idle > 0 {
		left = min(left, idleLeft(d.Terms.Idle, h.Carrier.silence.SilentSince()))
	}
	if !d.MaxHoldEnd.IsZero() {
		left = min(left, time.Until(d.MaxHoldEnd))
	}
	return left
}

// IsPresent reports whether h is safe now, and still will be after a release of one count that is
// under way.
func (h *Hold) IsPresent() bool {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	return h.isPresentLocked()
}

func (h *Hold) isPresentLocked() bool {
	left, _ := h.Left()
	return h.state.isRenewed() && left > 0
}

// After a lease is over by our clock, its owner does not rely on it any more. Redis has it a little
// longer, or much longer if somebody extended it and the event was lost. So the hold stays
// registered until Redis says that it is over.

// LeaseOver reports whether h is a lease that is over as far as this Leash knows.
func (h *Hold) LeaseOver() bool {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	return h.leaseOverLocked()
}

func (h *Hold) leaseOverLocked() bool {
	if !h.flags.Lease {
		return false
	}
	left, kept := h.Left()
	return kept && left <= 0
}

// LeaseOverAt reports whether h is a lease that is over at until.
func (h *Hold) LeaseOverAt(until time.Time) bool {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	return h.flags.Lease && !time.Now().Before(until)
}

// LeaseOverAndIdle reports whether h is a lease that is over, without a request in progress that
// may extend it. Nobody loses anything if it ends for this Leash.
func (h *Hold) LeaseOverAndIdle() bool {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	return h.leaseOverAndIdleLocked()
}

func (h *Hold) leaseOverAndIdleLocked() bool { return !h.requestsLocked && h.leaseOverLocked() }

// ForgetIfLeaseOver ends h for this Leash if it is a lease that is over. If somebody extended it,
// it goes on in Redis.
func (h *Hold) ForgetIfLeaseOver() bool {
	h.Carrier.mu.Lock()
	var ch Change
	ok := h.leaseOverAndIdleLocked()
	if ok {
		ch, ok = h.applyLocked(Elsewhere, "")
	}
	h.Carrier.mu.Unlock()
	h.Carrier.registry.follow(ch)
	return ok
}

// ExtendFor notes that h, whose requests the caller has locked, is about to be extended by that
// time. From now on it counts as safe for no longer than that call may leave it.
func (h *Hold) ExtendFor(ttl time.Duration) {
	now := time.Now()
	if short := renewal.Until(now, ttl); short.Before(h.SafeUntil()) {
		h.Carrier.registry.Watchdog.Correct(&h.Watch, short, now)
	}
}

// SetLease sets how long a lease lasts.
func (h *Hold) SetLease(ttl time.Duration, until time.Time) {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	if !h.flags.Lease || h.state != Held {
		return
	}
	h.ttl = ttl
	w := h.Carrier.registry.Watchdog
	w.Correct(&h.Watch, until, time.Now())
	w.Add(&h.Watch, h.plan(until))
}

// ToRestore is the hold for a restore. The caller has locked its requests.
func (h *Hold) ToRestore() script.RestoredHold {
	until, d, c := h.SafeUntil(), h.Details(), h.Carrier
	lasts := d.TTL
	if d.Terms.Lease && d.State != releasing {
		// the watchdog subtracts a margin
		lasts = time.Until(until) + d.TTL/50 + 20*time.Millisecond
	}
	return script.RestoredHold{
		Key: h.Key(), Owner: h.Owner(), Carrier: c.Name, Token: h.Token, Request: c.Requests.Add(1), Count: d.Count,
		Lasts: lasts, TTL: d.TTL, Terms: d.Terms, Moves: d.Moves, LastID: d.LastID, Client: c.Client().Name,
	}
}
