package lockcmd

import (
	"time"

	"leash/renewal"
)

// After a lease is over by our clock, its owner does not rely on it any more. Redis has it a little
// longer, or much longer if somebody extended it and the event was lost. So the hold stays
// registered until Redis says that it is over.

// leaseOverAndIdle reports whether h is a lease that is over, without a request in progress that
// may extend it. Nobody loses anything if it ends for this Leash.
func (h *hold) leaseOverAndIdle() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.leaseOverAndIdleLocked()
}

func (h *hold) leaseOverAndIdleLocked() bool { return !h.requestLocked && h.leaseOverLocked() }

// forgetIfLeaseOver ends h for this Leash if it is a lease that is over. If somebody extended it,
// it goes on in Redis.
func (h *hold) forgetIfLeaseOver() bool {
	h.carrier.mu.Lock()
	var ch change
	ok := h.leaseOverAndIdleLocked()
	if ok {
		ch, ok = h.applyLocked(elsewhere, "")
	}
	h.carrier.mu.Unlock()
	h.carrier.service.follow(time.Time{}, ch)
	return ok
}

// wasExtended asks Redis how long h lasts, a lease that is over and whose requests the caller has
// locked. It reports whether somebody extended it, or nobody knows. Without that, our margin leaves
// it at most a quarter of its time in Redis, unless Redis was slow at the grant.
func (h *hold) wasExtended(until time.Time) bool {
	s := h.carrier.service
	left, sent, err := s.redis.CheckHold(h.ref(), h.mode(), h.owner(), until)
	h.carrier.mu.Lock()
	lasts := left > h.ttl/4
	h.carrier.mu.Unlock()
	if err == nil && lasts {
		s.watchdog.Correct(&h.watch, renewal.Until(sent, left), sent)
	}
	return err != nil || lasts
}
