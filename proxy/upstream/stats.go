package upstream

import (
	"cmp"
	"context"
	"slices"

	"leash/proxy/links"
	"leash/proxy/topology"
)

// Stats are figures about Redis for metrics.
type Stats struct {
	Masters int // that own slots
	Usable  int // masters that answer, see Upstream.Usable
	links.Stats
}

// Stats returns the figures of this moment. It visits every link, of which pinned ones may be many.
func (u *Upstream) Stats() Stats {
	s := Stats{Stats: u.Nodes.Stats()}
	if t := u.Topology(); t != nil {
		s.Masters, s.Usable = len(t.Masters()), usable(t)
	}
	return s
}

// Usable reports whether a master has answered its last PING. A master whose connection breaks
// counts as unusable at once, one that is silent within 2 s; Answers knows it earlier. Before
// Connect has returned, no master is usable. Usable does not block.
func (u *Upstream) Usable() bool {
	t := u.Topology()
	return t != nil && usable(t) > 0
}

func usable(t *topology.Snapshot) (n int) {
	for _, m := range t.Masters() {
		if m.Usable() {
			n++
		}
	}
	return n
}

// Answers reports whether a master answers now: links.Answer.
func (u *Upstream) Answers(ctx context.Context) bool {
	return links.Answer(ctx, func() []*links.Node { return u.Topology().Masters() })
}

// NodeViews shows the nodes, the masters first. It visits every link and does not block.
func (u *Upstream) NodeViews() (views []links.NodeView) {
	t := u.Topology()
	if t == nil {
		return nil
	}
	for _, n := range u.Nodes.All() {
		v := n.View()
		switch {
		case v.Role != "":
		case slices.Contains(t.Holders(), n):
			v.Role = "master"
		default:
			v.Role = "replica"
		}
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b links.NodeView) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Addr, b.Addr))
	})
	return views
}

// PinnedPerNode returns the use of pinned links of each master. Safe for concurrent use. It does
// not block.
func (u *Upstream) PinnedPerNode() (all []links.PinnedAt) {
	for _, n := range u.Topology().Holders() {
		all = append(all, n.Pins())
	}
	return all
}
