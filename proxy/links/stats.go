package links

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

// Stats are figures about the nodes and the links to them.
type Stats struct {
	Busy int // nodes that run a slow script
	Counts

	PinnedLimit     int   // how many pinned links a node may have
	PinsRefused     int64 // pinned links that were refused because of the limit
	ConnectionsLost int64 // connections that Redis or the network has ended
	LoginsRefused   int64 // logins of Leash's own user whose password Redis refused
	// the times of the PINGs, at least one a second to each node
	RoundTrips histogram.Snapshot
}

// Stats returns the figures of this moment. It visits every link, of which pinned ones may be many.
func (ns *Nodes) Stats() Stats {
	s := Stats{
		Busy: int(ns.busy.Load()), PinnedLimit: ns.maxPinned(), PinsRefused: ns.stats.pinsRefused.Load(),
		ConnectionsLost: ns.stats.connectionsLost.Load(), LoginsRefused: ns.Dialer.LoginsRefused(),
		RoundTrips: ns.stats.roundTrips.Snapshot(),
	}
	for _, n := range ns.All() {
		n.eachLink(func(l *Link) { l.count(&s.Counts) })
	}
	return s
}

func (l *Link) count(s *Counts) {
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
