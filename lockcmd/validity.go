package lockcmd

import (
	"slices"
	"time"

	"leash/renewal"
)

// A session must not send anything to Redis once somebody else may have a lock that its client
// relies on (R27). The watchdog reports such a loss, but its goroutine may run late, after a
// SIGSTOP or on a busy machine. So the writer compares the time itself, right before the write.
//
// The carrier keeps one time for that. It is no later than the earliest end of its holds. Renewals
// do not change it. When it has come, EndOverdue computes the real ends, about once in two thirds
// of a TTL at most.
//
// Two kinds of holds do not count. The client knows the end of a LEASE, so that is no loss. With
// ONLOSS ERROR the client wants to go on, and is told when it next names the lock.

// SafeUntil is the time until which all holds of the carrier are safe, as far as is known. It is
// nil when no hold would end the connection. From that time on, call EndOverdue before anything is
// sent to Redis for the connection. SafeUntil takes no lock. The time it points to does not change.
func (c *Carrier) SafeUntil() *time.Time { return c.safeUntil.Load() }

// noteSafeUntilLocked notes that h is safe until that time.
func (c *Carrier) noteSafeUntilLocked(h *hold, until time.Time) {
	if !h.endsConnection() {
		return
	}
	if known := c.safeUntil.Load(); known == nil || until.Before(*known) {
		c.safeUntil.Store(&until)
	}
}

// endsConnection reports whether the loss of h closes the connection.
func (h *hold) endsConnection() bool { return !h.Lease && !h.ErrorOnLoss }

// CheckOverdue calls EndOverdue if SafeUntil has come.
func (c *Carrier) CheckOverdue() {
	if until := c.SafeUntil(); until != nil && renewal.Left(*until) <= 0 {
		c.EndOverdue()
	}
}

// EndOverdue ends the connection if a hold of it is over, as the watchdog would. Otherwise
// SafeUntil is later afterwards. It does not block.
func (c *Carrier) EndOverdue() {
	var earliest *time.Time
	var changes []change
	c.mu.Lock()
	for _, h := range c.holdsLocked() {
		left, kept := h.left()
		switch now := time.Now(); {
		case !h.state.isRenewed(), !h.endsConnection():
		case !kept && h.state == decrementing: // the watchdog is about to report what it has found
		case left <= 0: // includes a hold that the watchdog has given up but not reported
			ch, _ := h.applyLocked(expired, renewal.ReasonSilence)
			changes = append(changes, ch)
		case earliest == nil || now.Add(left).Before(*earliest):
			until := now.Add(left) // with the wall clock's reading of now
			earliest = &until
		}
	}
	closing := c.closingLoss
	if closing == nil { // until the host knows, each caller comes here
		c.safeUntil.Store(earliest)
	}
	c.mu.Unlock()
	c.service.follow(time.Time{}, changes...)
	if closing != nil && !slices.ContainsFunc(changes, func(ch change) bool { return ch.loss == closing }) {
		// another goroutine is about to do this
		c.host.End([]byte(closing.hold.key()), closing.reason)
	}
}

// left is how long h is safe from now on, as far as Redis has said. kept is false if the watchdog
// does not keep h.
func (h *hold) left() (left time.Duration, kept bool) {
	until := h.carrier.service.watchdog.Until(&h.watch)
	return time.Until(until), !until.IsZero()
}

// certainFor is how long h is safe from a loss, except by BREAK or by somebody who bypasses Leash.
func (h *hold) certainFor() time.Duration {
	c := h.carrier
	left, _ := h.left()
	c.mu.Lock()
	x := h.readExtra()
	c.mu.Unlock()
	if x.idle > 0 {
		left = min(left, idleLeft(x.idle, c.silence.SilentSince()))
	}
	if !x.maxHoldEnd.IsZero() {
		left = min(left, time.Until(x.maxHoldEnd))
	}
	return left
}

// leaseOverLocked reports whether h is a lease that is over as far as this Leash knows.
func (h *hold) leaseOverLocked() bool {
	if !h.Lease {
		return false
	}
	left, kept := h.left()
	return kept && left <= 0
}

func (h *hold) leaseOver() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.leaseOverLocked()
}

// isPresent reports whether h is safe now, and still will be after a release of one count that is
// under way.
func (h *hold) isPresent() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.isPresentLocked()
}

func (h *hold) isPresentLocked() bool {
	left, _ := h.left()
	return h.state.isRenewed() && left > 0
}

// leaseOverAt reports whether h is a lease that is over at until.
func (h *hold) leaseOverAt(until time.Time) bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.Lease && !time.Now().Before(until)
}
