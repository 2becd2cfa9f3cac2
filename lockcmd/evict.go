package lockcmd

import "time"

// evict takes a hold from its owner: it is told of the loss first, then the hold is ended, whatever else is under way about it. It does
// not block. It reports false when h is not held any more.
func (h *hold) evict(reason string) bool {
	s := h.carrier.service
	switch from, ok := h.lose(releasing, reason); {
	case !ok:
		return false
	case from == lessening: // who releases a count of it finds that the rest is to be ended too
		s.watchdog.Remove(&h.watch)
	default:
		s.endAll([]*hold{h})
	}
	return true
}

// startTimerLocked begins to count MAXHOLD.
func (h *hold) startTimerLocked() {
	if !h.limit.IsZero() {
		h.timer = time.AfterFunc(time.Until(h.limit), h.overstay)
	}
}

func (h *hold) stopTimer() {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
}

// overstay is the end of MAXHOLD. The client has agreed to it, so the hold does not run out but is released (R28).
func (h *hold) overstay() {
	h.carrier.service.spawn(func() { h.evict(reasonMaxHold) })
}
