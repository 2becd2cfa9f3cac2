package upstream

import (
	"slices"

	"leash/proxy/dial"
)

// refuse tells the lane's sessions that their credential is no longer valid. It does nothing for
// two kinds of nodes. A replica may have other users than its master. A node that has just joined
// has no users yet.
func (u *Upstream) refuse(lane dial.Lane, by *Node) {
	if lane.Replica || slices.Contains(u.Topology().slotless, by) {
		return
	}
	u.log.Warn("redis refuses a user's password", "user", lane.User)
	if u.onRefused != nil {
		u.onRefused(lane)
	}
}

// closeAnonymous closes the links without authentication. Redis now requires it from new
// connections, but it does not close old ones.
func (u *Upstream) closeAnonymous() {
	u.mu.Lock()
	nodes := u.nodesLocked()
	u.mu.Unlock()
	if u.Topology() != nil { // at the start nothing has changed
		u.log.Warn("redis now requires clients to authenticate")
	}
	for _, n := range nodes {
		n.dropLinks(func(lane dial.Lane) bool { return lane.User == "" })
	}
}
