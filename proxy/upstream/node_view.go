package upstream

import (
	"cmp"
	"slices"

	"leash/proxy/links"
)

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
