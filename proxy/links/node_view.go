package links

import (
	"time"
)

// Counts are the numbers of connected links by their kind.
type Counts struct{ SharedLinks, DetourLinks, PinnedLinks int }

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
