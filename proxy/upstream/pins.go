package upstream

import "leash/proxy/links"

// PinnedPerNode returns the use of pinned links of each master. Safe for concurrent use. It does
// not block.
func (u *Upstream) PinnedPerNode() (all []links.PinnedAt) {
	for _, n := range u.Topology().Holders() {
		all = append(all, n.Pins())
	}
	return all
}
