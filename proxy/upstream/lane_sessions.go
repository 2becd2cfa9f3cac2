package upstream

import (
	"leash/proxy/dial"
)

// Join and Leave count the sessions of a lane. When the last session leaves, the lane's links are
// closed. When the user's last session leaves, in whichever lane, the credential is forgotten. The
// lane of new connections stays.
//
// A session joins a lane before it authenticates for it. Otherwise another session's Leave could
// remove the credential that Redis accepted.
func (u *Upstream) Join(lane dial.Lane) {
	u.mu.Lock()
	u.sessions[lane]++
	u.users[lane.User]++
	u.mu.Unlock()
}

// Leave is the opposite of Join.
func (u *Upstream) Leave(lane dial.Lane) {
	u.mu.Lock()
	u.sessions[lane]--
	u.users[lane.User]--
	last := u.sessions[lane] == 0
	if last {
		delete(u.sessions, lane)
	}
	if u.users[lane.User] == 0 {
		delete(u.users, lane.User)
		u.Forget(lane.User)
	}
	var nodes []*Node
	if last && !lane.Fresh() {
		nodes = u.nodesLocked()
	}
	u.mu.Unlock()
	for _, n := range nodes {
		n.closeLane(lane, ErrClosed)
	}
}

// unused reports whether a lane has no session.
func (u *Upstream) unused(lane dial.Lane) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sessions[lane] == 0
}
