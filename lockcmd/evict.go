package lockcmd

import (
	"time"

	"leash/internal/guard"
)

// evict takes a hold from its owner: it is told of the loss first, then the hold is ended, whatever
// else is under way about it. It does not block. It reports false when h is not held any more.
func (h *hold) evict(reason string) bool {
	s := h.carrier.service
	if h.dropIfLeaseOver() {
		h.unregister()
		return false
	}
	switch from, ok := h.lose(releasing, reason); {
	case !ok:
		return false
	case from == decrementing: // who releases a count of it finds that the rest is to be ended too
		s.watchdog.Remove(&h.watch)
	default:
		s.endAll([]*hold{h})
	}
	return true
}

// wasEvicted reports whether h was taken from its owner, who has been told.
func (h *hold) wasEvicted() bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.evicted
}

// minLeaseSpare is by how much a lease outlives MAXHOLD at least, for its holder to be told in time.
const minLeaseSpare = time.Second

// capLease is a lease that does not outlast MAXHOLD, of which so much is left, by much: should
// nobody carry it then, it ends all the same.
func capLease(lease, left time.Duration) time.Duration {
	left = max(left, 0)
	return min(lease, left+left/16+minLeaseSpare)
}

// capLease is a lease of h, which is held, within its own MAXHOLD.
func (h *hold) capLease(lease time.Duration) time.Duration {
	if left := h.maxHoldLeft(time.Now()); left < maxTTL {
		return capLease(lease, left)
	}
	return lease
}

// maxHoldLeft is what MAXHOLD leaves of h from now on; maxTTL for as long as one likes.
func (h *hold) maxHoldLeft(now time.Time) time.Duration {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if limit := h.readExtra().maxHoldEnd; !limit.IsZero() {
		return limit.Sub(now)
	}
	return maxTTL
}

// startTimerLocked begins to count MAXHOLD.
func (h *hold) startTimerLocked() {
	if limit := h.readExtra().maxHoldEnd; !limit.IsZero() {
		h.extra.maxHoldTimer = time.AfterFunc(time.Until(limit), guard.Func(h.carrier.service.log, "MAXHOLD", h.maxHoldOver))
	}
}

func (h *hold) stopTimer() {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if timer := h.readExtra().maxHoldTimer; timer != nil {
		timer.Stop()
	}
}

// maxHoldOver is the end of MAXHOLD. The client has agreed to it, so the hold does not run out but is
// released (R28).
func (h *hold) maxHoldOver() {
	h.carrier.service.spawn(func() { h.evict(reasonMaxHold) })
}
