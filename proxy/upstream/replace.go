package upstream

import "leash/proxy/links"

// replace puts a new Node in the place of n, the only master. All connections to n end: links,
// pinned ones, and those of go-redis and of lock scripts.
func (u *Upstream) replace(n *links.Node) {
	u.Remove(n)
	u.adoptSingle(n.Addr, nil)
	u.close(n)
	u.Refresh() // finds the replicas
	if u.onSwitch != nil {
		u.onSwitch()
	}
}
