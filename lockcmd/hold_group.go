package lockcmd

import "slices"

// holdGroup is what holds of one MACQUIRE have in common, while it is being made and, with QUORUM, as
// long as they last.
type holdGroup struct {
	// Guarded by the carrier's mu.
	holds    []*hold // those that their owner knows of, none at first; without those that were lost
	minHolds int     // with fewer than that their owner has none
}

// unreportedLocked reports whether nobody has been told of h yet.
func (h *hold) unreportedLocked() bool {
	b := h.readExtra().group
	return b != nil && !slices.Contains(b.holds, h)
}

// leaveGroup lets h stand for itself. carrier.mu is held.
func (h *hold) leaveGroup() {
	if h.extra != nil {
		h.extra.group = nil
	}
}

// groupLoss is how the loss of a hold goes on.
type groupLoss struct {
	reported   bool // its owner must hear of it
	unreported bool // nobody knew of it
	// they are of no use without it, and must be ended when their owner has been told
	remaining []*hold
}

// loseLocked takes h, which was lost, out. It is no loss of its owner's while enough of the others
// remain, unless it was taken from it on purpose.
func (b *holdGroup) loseLocked(h *hold, evicted bool) groupLoss {
	i := slices.Index(b.holds, h)
	if i < 0 {
		return groupLoss{unreported: true}
	}
	b.holds = slices.Delete(slices.Clone(b.holds), i, i+1)
	rest := slices.DeleteFunc(slices.Clone(b.holds), func(other *hold) bool { return !other.isPresentLocked() })
	if len(rest) >= b.minHolds {
		return groupLoss{reported: evicted}
	}
	b.holds = nil
	for _, other := range rest {
		other.leaveGroup()
	}
	return groupLoss{reported: true, remaining: rest}
}
