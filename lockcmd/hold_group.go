package lockcmd

import "slices"

// holdGroup is what the holds of one MACQUIRE share while they are collected and, with QUORUM, as
// long as they last.
type holdGroup struct {
	// Guarded by the carrier's mu.
	holds    []*hold // reported to the owner and not lost; none at first
	minHolds int     // with fewer than this the owner has none
}

// unreportedLocked reports whether nobody has been told of h yet.
func (h *hold) unreportedLocked() bool {
	b := h.readExtra().group
	return b != nil && !slices.Contains(b.holds, h)
}

// leaveGroup makes h independent of its group. The caller holds carrier.mu.
func (h *hold) leaveGroup() {
	if h.extra != nil {
		h.extra.group = nil
	}
}

// loseLocked removes h, which was lost. It is no loss to the owner while enough others remain,
// unless h was evicted.
func (b *holdGroup) loseLocked(h *hold, evicted bool) lossReport {
	i := slices.Index(b.holds, h)
	if i < 0 {
		return lossReport{unknown: true}
	}
	b.holds = slices.Delete(slices.Clone(b.holds), i, i+1)
	rest := slices.DeleteFunc(slices.Clone(b.holds), func(other *hold) bool { return !other.isPresentLocked() })
	if len(rest) >= b.minHolds {
		return lossReport{reported: evicted}
	}
	b.holds = nil
	for _, other := range rest {
		other.leaveGroup()
	}
	return lossReport{reported: true, remaining: rest}
}
