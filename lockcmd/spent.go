package lockcmd

import (
	"time"

	"leash/renewal"
)

// A lease is spent when it is over as far as we know. Nobody believes in it from then on, but Redis
// has it for a little longer, and for much longer if somebody made it last unheard: it stays in the
// books until Redis says that it is over.

// spentLocked reports whether h is spent. carrier.mu is held.
func (h *hold) spentLocked() bool {
	if !h.lease {
		return false
	}
	until := h.carrier.service.watchdog.Until(&h.watch)
	return !until.IsZero() && !time.Now().Before(until)
}

func (h *hold) spent() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.spentLocked()
}

// remains reports whether h is there, and is still when a release of a count that is under way is
// over.
func (h *hold) remains() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.remainsLocked()
}

func (h *hold) remainsLocked() bool {
	return (h.state == held || h.state == lessening && !h.missed) && !h.spentLocked()
}

// done reports whether h is spent and no request about it is under way, whose answer may make it
// last.
func (h *hold) done() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return !h.busy && h.spentLocked()
}

// lapses ends h for this Leash if it is done: nobody loses anything. If somebody has made it last
// unheard, it still does.
func (h *hold) lapses() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if h.state != held || h.busy || !h.spentLocked() {
		return false
	}
	h.state = over
	h.carrier.dropLocked(h)
	return true
}

// revived asks Redis how long h lasts, which is spent and whose gate is ours, and reports whether
// somebody has made it last, or nobody says. By itself it lasts there no longer than our count is
// cautious: a quarter of its time at most, unless Redis was slow as it granted.
func (h *hold) revived(until time.Time) bool {
	s, owner := h.carrier.service, h.owner()
	look := &request{
		script: h.mode().renew, db: int(h.db), keys: h.mode().keys(h.key(), owner), args: words(0, owner, mark(h.token, h.carrier.name)),
	}
	n, err := s.numberTogether(look, until)
	left := millis(n - 1)
	h.carrier.mu.Lock()
	lasts := left > h.ttl/4
	h.carrier.mu.Unlock()
	if err == nil && lasts {
		s.watchdog.Correct(&h.watch, renewal.Until(look.sent, left), look.sent)
	}
	return err != nil || lasts
}
