package upstream

import (
	"leash/proxy/dial"
	"leash/proxy/links"
)

// refuse tells the lane's sessions that their credential is no longer valid. It does nothing for
// two kinds of nodes. A replica may have other users than its master. A node that has just joined
// has no users yet.
func (u *Upstream) refuse(lane dial.Lane, by *links.Node) {
	if lane.Replica || u.Topology().IsSlotless(by) {
		return
	}
	u.log.Warn("redis refuses a user's password", "user", lane.User)
	if u.onRefused != nil {
		u.onRefused(lane)
	}
}
