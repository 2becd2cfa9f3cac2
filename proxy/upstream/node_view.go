package upstream

import (
	"cmp"
	"slices"
	"time"
)

// NodeView is a node as people see it.
type NodeView struct {
	Addr      string
	Role      string        // master, replica or removed: it has left the topology
	Usable    bool          // it answers
	Busy      bool          // it runs a slow script
	RoundTrip time.Duration // of the last PING; 0 if unknown
	// connected links by their kind
	SharedLinks, DetourLinks, PinnedLinks int
}

// NodeViews shows the nodes, the masters first. It visits every link and does not block.
func (u *Upstream) NodeViews() (views []NodeView) {
	t := u.Topology()
	if t == nil {
		return nil
	}
	u.mu.Lock()
	nodes := u.nodesLocked()
	u.mu.Unlock()
	for _, n := range nodes {
		views = append(views, n.view(t))
	}
	slices.SortFunc(views, func(a, b NodeView) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Addr, b.Addr))
	})
	return views
}

func (n *Node) view(t *Topology) NodeView {
	v := NodeView{
		Addr: n.Addr, Role: "replica", Busy: n.busy.Load(), RoundTrip: time.Duration(n.roundTrip.Load()),
		Usable: n.answers(),
	}
	n.mu.Lock()
	left := !n.retired.IsZero()
	n.mu.Unlock()
	switch {
	case left:
		v.Role = "removed"
	case slices.Contains(t.Holders(), n):
		v.Role = "master"
	}
	var s Stats
	n.eachLink(func(l *Link) { l.count(&s) })
	v.SharedLinks, v.DetourLinks, v.PinnedLinks = s.SharedLinks, s.DetourLinks, s.PinnedLinks
	return v
}
