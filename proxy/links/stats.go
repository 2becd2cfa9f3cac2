package links

import (
	"sync/atomic"
	"time"

	"leash/internal/histogram"
)

// counters are the live figures for Stats, since the start. Safe for concurrent use.
type counters struct {
	connectionsLost atomic.Int64
	pinsRefused     atomic.Int64
	roundTrips      histogram.Histogram
}

// Counts are the numbers of connected links by their kind.
type Counts struct{ SharedLinks, DetourLinks, PinnedLinks int }

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

// NodeView is a node as people see it.
type NodeView struct {
	Addr      string
	Role      string        // master, replica or removed: it has left the topology
	Usable    bool          // it answers
	Busy      bool          // it runs a slow script
	RoundTrip time.Duration // of the last PING; 0 if unknown
	Counts
}

// View shows the node. Its role is empty if it has not left the topology: the caller knows it.
func (n *Node) View() NodeView {
	v := NodeView{Addr: n.Addr, Busy: n.busy.Load(), RoundTrip: time.Duration(n.roundTrip.Load()), Usable: n.Usable()}
	n.mu.Lock()
	if !n.retired.IsZero() {
		v.Role = "removed"
	}
	n.mu.Unlock()
	n.eachLink(func(l *Link) { l.count(&v.Counts) })
	return v
}
