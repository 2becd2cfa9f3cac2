package lockcmd

import "slices"

// bundle is what holds of one MACQUIRE have in common, while it is being made and, with QUORUM, as
// long as they last.
type bundle struct {
	// Guarded by the carrier's mu.
	holds []*hold // those that their owner knows of, none at first; without those that were lost
	least int     // with fewer than that their owner has none
}

// hiddenLocked reports whether nobody has been told of h yet.
func (h *hold) hiddenLocked() bool {
	b := h.rare().bundle
	return b != nil && !slices.Contains(b.holds, h)
}

// unbundle lets h stand for itself. carrier.mu is held.
func (h *hold) unbundle() {
	if h.extra != nil {
		h.extra.bundle = nil
	}
}

// fall is how the loss of a hold goes on.
type fall struct {
	told   bool // its owner must hear of it
	secret bool // nobody knew of it
	// they are of no use without it, and must be ended when their owner has been told
	rest []*hold
}

// fallLocked takes h, which was lost, out. It is no loss of its owner's while enough of the others
// remain, unless it was taken from it on purpose.
func (b *bundle) fallLocked(h *hold, evicted bool) fall {
	i := slices.Index(b.holds, h)
	if i < 0 {
		return fall{secret: true}
	}
	b.holds = slices.Delete(slices.Clone(b.holds), i, i+1)
	rest := slices.DeleteFunc(slices.Clone(b.holds), func(other *hold) bool { return !other.remainsLocked() })
	if len(rest) >= b.least {
		return fall{told: evicted}
	}
	b.holds = nil
	for _, other := range rest {
		other.unbundle()
	}
	return fall{told: true, rest: rest}
}
