package hold

import (
	"context"
	"slices"
	"time"
)

// Group is what the holds of one MACQUIRE share while they are collected and, with QUORUM, as long
// as they last.
type Group struct {
	// Guarded by the carrier's mu.
	holds    []*Hold // reported to the owner and not lost; none at first
	minHolds int     // with fewer than this the owner has none
}

// unreportedLocked reports whether nobody has been told of h yet.
func (h *Hold) unreportedLocked() bool {
	g := h.readExtra().group
	return g != nil && !slices.Contains(g.holds, h)
}

// leaveGroup makes h independent of its group. The caller holds Carrier.mu.
func (h *Hold) leaveGroup() {
	if h.extra != nil {
		h.extra.group = nil
	}
}

// MarkAsLease turns a renewed hold of the group into a lease. It reports whether h is one.
func (h *Hold) MarkAsLease(of *Group) bool {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	if h.readExtra().group != of || h.flags.Lease || h.state != Held {
		return false
	}
	h.flags.Lease = true
	return true
}

// loseLocked removes h, which was lost. It is no loss to the owner while enough others remain,
// unless h was evicted.
func (g *Group) loseLocked(h *Hold, evicted bool) lossReport {
	i := slices.Index(g.holds, h)
	if i < 0 {
		return lossReport{unknown: true}
	}
	g.holds = slices.Delete(slices.Clone(g.holds), i, i+1)
	rest := slices.DeleteFunc(slices.Clone(g.holds), func(other *Hold) bool { return !other.isPresentLocked() })
	if len(rest) >= g.minHolds {
		return lossReport{reported: evicted}
	}
	g.holds = nil
	for _, other := range rest {
		other.leaveGroup()
	}
	return lossReport{reported: true, remaining: rest}
}

// Complete gives holds that were collected for a group to the client, if at least enough of them
// are present. It sets the others to nil. If quorum is true, they form the group from now on, and
// moved says which ones another connection had. gone says that the client is gone instead: that and
// a disconnect are decided under the carrier's mutex (R19).
func (c *Carrier) Complete(ctx context.Context, g *Group, holds []*Hold, moved []bool, enough int,
	quorum bool) (ok, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var fresh []*Hold
	n := 0
	for i, h := range holds {
		switch {
		case h == nil:
		case !h.isPresentLocked():
			holds[i] = nil
		default:
			n++
			// A hold that was moved here belongs to this command if it has no other acquire.
			if h.readExtra().group == g || quorum && moved[i] && h.count == 1 {
				fresh = append(fresh, h)
			}
		}
	}
	switch {
	case c.ended || ctx.Err() != nil:
		return false, true
	case n < enough:
		return false, false
	}
	if quorum {
		g.minHolds, g.holds = enough-(n-len(fresh)), fresh
	}
	for _, h := range fresh {
		if x := h.readExtra(); x.terms.MaxHold > 0 && x.maxHoldEnd.IsZero() {
			h.extra.maxHoldEnd = time.Now().Add(x.terms.MaxHold)
			h.startTimerLocked()
		}
		if h.leaveGroup(); quorum {
			h.writeExtra().group = g
		}
	}
	return true, false
}
