package lockcmd

import (
	"time"

	"leash/renewal"
)

// A lease is spent when it is over as far as we know. Nobody believes in it from then on, but Redis
// has it for a little longer, and for much longer if somebody made it last unheard: it stays in the
// books until Redis says that it is over.

// leaseOverLocked reports whether h is spent. carrier.mu is held.
func (h *hold) leaseOverLocked() bool {
	if !h.lease {
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

// isPresent reports whether h is there, and is still when a release of a count that is under way is
// over.
func (h *hold) isPresent() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.isPresentLocked()
}

func (h *hold) isPresentLocked() bool {
	return (h.state == held || h.state == decrementing && !h.missed) && !h.leaseOverLocked()
}

// leaseOverAndIdle reports whether h is spent and no request about it is under way, whose answer may make it
// last.
func (h *hold) leaseOverAndIdle() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return !h.requestLocked && h.leaseOverLocked()
}

// dropIfLeaseOver ends h for this Leash if it is done: nobody loses anything. If somebody has made it last
// unheard, it still does.
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

// wasExtended asks Redis how long h lasts, which is spent and whose gate is ours, and reports whether
// somebody has made it last, or nobody says. By itself it lasts there no longer than our count is
// cautious: a quarter of its time at most, unless Redis was slow as it granted.
func (h *hold) wasExtended(until time.Time) bool {
	s, owner := h.carrier.service, h.owner()
	inspect := &scriptCall{
		script: h.mode().renew, db: int(h.db), keys: h.mode().keys(h.key(), owner), args: scriptArgs(0, owner, recordPrefix(h.token, h.carrier.name)),
	}
	n, err := s.askIntThroughMigration(inspect, until)
	left := millis(n - 1)
	h.carrier.mu.Lock()
	lasts := left > h.ttl/4
	h.carrier.mu.Unlock()
	if err == nil && lasts {
		s.watchdog.Correct(&h.watch, renewal.Until(inspect.sent, left), inspect.sent)
	}
	return err != nil || lasts
}
