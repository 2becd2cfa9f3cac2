package lockcmd

import (
	"time"

	"leash/internal/guard"
	"leash/lockcmd/script"
)

// evict takes a hold from its owner. It reports the loss first and then ends the hold, whatever
// else is in progress about it. It does not block. It returns false when h is not held any more.
func (h *hold) evict(reason string) bool {
	h.carrier.mu.Lock()
	ch, ok := h.evictLocked(reason)
	h.carrier.mu.Unlock()
	h.carrier.service.follow(time.Time{}, ch)
	return ok && ch.to == ending
}

// evictLocked changes the state of h. Nobody loses a lease that is over.
func (h *hold) evictLocked(reason string) (ch change, ok bool) {
	if h.leaseOverAndIdleLocked() {
		return h.applyLocked(dropped, "")
	}
	return h.applyLocked(evicted, reason)
}

// checkLimits evicts h if its MAXHOLD is over or it was broken. IDLE is checked again by itself.
func (h *hold) checkLimits() {
	if h.maxHoldLeft(time.Now()) <= 0 {
		h.evict(reasonMaxHold)
		return
	}
	h.carrier.service.obeyBreak(h)
}

// minLeaseSpare is the least time by which a lease is longer than MAXHOLD, so that the holder can
// be told first.
const minLeaseSpare = time.Second

// capLease shortens a lease to a little more than what is left of MAXHOLD. It then ends even if no
// connection carries it.
func capLease(lease, left time.Duration) time.Duration {
	left = max(left, 0)
	return min(lease, left+left/16+minLeaseSpare)
}

// capLease shortens a lease of h by what is left of its own MAXHOLD.
func (h *hold) capLease(lease time.Duration) time.Duration {
	if left := h.maxHoldLeft(time.Now()); left < script.MaxTTL {
		return capLease(lease, left)
	}
	return lease
}

// maxHoldLeft is what is left of MAXHOLD; script.MaxTTL without one.
func (h *hold) maxHoldLeft(now time.Time) time.Duration {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if limit := h.readExtra().maxHoldEnd; !limit.IsZero() {
		return limit.Sub(now)
	}
	return script.MaxTTL
}

// startTimerLocked starts the time of MAXHOLD.
func (h *hold) startTimerLocked() {
	if limit := h.readExtra().maxHoldEnd; !limit.IsZero() {
		h.extra.maxHoldTimer = time.AfterFunc(time.Until(limit),
			guard.Func(h.carrier.service.log, "MAXHOLD", h.maxHoldOver))
	}
}

func (h *hold) stopTimerLocked() {
	if timer := h.readExtra().maxHoldTimer; timer != nil {
		timer.Stop()
	}
}

// maxHoldOver runs when MAXHOLD is over. The client has agreed to it, so the hold is released
// instead of left to expire (R28).
func (h *hold) maxHoldOver() {
	h.carrier.service.spawn(func() { h.evict(reasonMaxHold) })
}
