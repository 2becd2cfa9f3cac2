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
	for _, n := range u.All() {
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
