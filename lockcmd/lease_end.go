package lockcmd

import (
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// After a lease is over by our clock, its owner does not rely on it any more. Redis has it a little
// longer, or much longer if somebody extended it and the event was lost. So the hold stays
// registered until Redis says that it is over.

// leaseOverLocked reports whether h is a lease that is over as far as this Leash knows.
func (h *hold) leaseOverLocked() bool {
	if !h.Lease {
		return false
	}
	until := h.carrier.service.watchdog.Until(&h.watch)
	return !until.IsZero() && !time.Now().Before(until)
}

func (h *hold) leaseOver() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.leaseOverLocked()
}

// isPresent reports whether h is held, and still will be after a release of one count that is under
// way.
func (h *hold) isPresent() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.isPresentLocked()
}

func (h *hold) isPresentLocked() bool {
	return (h.state == held || h.state == decrementing && !h.missed) && !h.leaseOverLocked()
}

// leaseOverAndIdle reports whether h is a lease that is over, without a request in progress that
// may extend it.
func (h *hold) leaseOverAndIdle() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return !h.requestLocked && h.leaseOverLocked()
}

// dropIfLeaseOver ends h for this Leash if it is a lease that is over, without a request in
// progress. Nobody loses anything. If somebody extended it, it goes on in Redis.
func (h *hold) dropIfLeaseOver() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if h.state != held || h.requestLocked || !h.leaseOverLocked() {
		return false
	}
	h.state = over
	h.carrier.removeHoldLocked(h)
	return true
}

// wasExtended asks Redis how long h lasts, a lease that is over and whose requests the caller has
// locked. It reports whether somebody extended it, or nobody knows. Without that, our margin leaves
// it at most a quarter of its time in Redis, unless Redis was slow at the grant.
func (h *hold) wasExtended(until time.Time) bool {
	s, owner := h.carrier.service, h.owner()
	inspect := &script.Call{
		Script: h.mode().Renew, DB: int(h.db), Keys: h.mode().Keys(h.key(), owner), Args: script.Args(0, owner, script.RecordPrefix(h.token, h.carrier.name)),
	}
	n, err := s.redis.AskIntThroughMigration(inspect, until)
	left := script.Millis(n - 1)
	h.carrier.mu.Lock()
	lasts := left > h.ttl/4
	h.carrier.mu.Unlock()
	if err == nil && lasts {
		s.watchdog.Correct(&h.watch, renewal.Until(inspect.Sent, left), inspect.Sent)
	}
	return err != nil || lasts
}
