package upstream

import (
	"sync/atomic"

	"leash/internal/histogram"
)

// counters are the live figures for Stats, since the start. Safe for concurrent use.
type counters struct {
	connectionsLost atomic.Int64
	pinsRefused     atomic.Int64
	roundTrips      histogram.Histogram
}

// Stats are figures about Redis for metrics.
type Stats struct {
	Masters int // that own slots
	Usable  int // masters that answer, see Upstream.Usable
	Busy    int // nodes that run a slow script

	SharedLinks, DetourLinks, PinnedLinks int // connected ones, of all nodes

	PinnedLimit     int   // how many pinned links a node may have
	PinsRefused     int64 // pinned links that were refused because of the limit
	ConnectionsLost int64 // connections that Redis or the network has ended
	LoginsRefused   int64 // logins of Leash's own user whose password Redis refused
	// the times of the PINGs, at least one a second to each node
	RoundTrips histogram.Snapshot
}

// Stats returns the figures of this moment. It visits every link, of which pinned ones may be many.
func (u *Upstream) Stats() Stats {
	s := Stats{
		Busy: int(u.busy.Load()), PinnedLimit: u.maxPinned(), PinsRefused: u.stats.pinsRefused.Load(),
		ConnectionsLost: u.stats.connectionsLost.Load(), LoginsRefused: u.LoginsRefused(),
		RoundTrips: u.stats.roundTrips.Snapshot(),
	}
	if t := u.Topology(); t != nil {
		s.Masters, s.Usable = len(t.Masters()), t.usable()
	}
	u.mu.Lock()
	nodes := u.nodesLocked()
	u.mu.Unlock()
	for _, n := range nodes {
		n.eachLink(func(l *Link) { l.count(&s) })
	}
	return s
}

// count counts the link if it is connected.
func (l *Link) count(s *Stats) {
	l.mu.Lock()
	connected := l.conn != nil
	l.mu.Unlock()
	switch {
	case !connected:
	case l.pinned:
		s.PinnedLinks++
	case l.first != nil:
		s.DetourLinks++
	default:
		s.SharedLinks++
	}
}

// Usable reports whether a master has answered its last PING. A master whose connection breaks
// counts as unusable at once, one that is silent within 2 s; Answers knows it earlier. Before
// Connect has returned, no master is usable. Usable does not block.
func (u *Upstream) Usable() bool {
	t := u.Topology()
	return t != nil && t.usable() > 0
}

// usable is how many masters answer.
func (t *Topology) usable() (n int) {
	for _, m := range t.masters {
		if m.answers() {
			n++
		}
	}
	return n
}
