package links

import "leash/proxy/dial"

// Join and Leave count the sessions of a lane. When the last session leaves, the lane's links are
// closed. When the user's last session leaves, in whichever lane, the credential is forgotten. The
// lane of new connections stays.
//
// A session joins a lane before it authenticates for it. Otherwise another session's Leave could
// remove the credential that Redis accepted.
func (ns *Nodes) Join(lane dial.Lane) {
	ns.mu.Lock()
	ns.sessions[lane]++
	ns.users[lane.User]++
	ns.mu.Unlock()
}

// Leave is the opposite of Join.
func (ns *Nodes) Leave(lane dial.Lane) {
	ns.mu.Lock()
	ns.sessions[lane]--
	ns.users[lane.User]--
	last := ns.sessions[lane] == 0
	if last {
		delete(ns.sessions, lane)
	}
	if ns.users[lane.User] == 0 {
		delete(ns.users, lane.User)
		ns.Dialer.Forget(lane.User)
	}
	ns.mu.Unlock()
	if !last || lane.Fresh() {
		return
	}
	for _, n := range ns.All() {
		n.closeLane(lane, ErrClosed)
	}
}

// unused reports whether nobody needs a lane any more.
func (ns *Nodes) unused(lane dial.Lane) bool {
	if lane.Scripts {
		return false
	}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.sessions[lane] == 0
}

// closeAnonymous closes the links without authentication. Redis now requires it from new
// connections, but it does not close old ones.
func (ns *Nodes) closeAnonymous() {
	ns.log.Warn("redis now requires clients to authenticate")
	for _, n := range ns.All() {
		n.dropLinks(func(lane dial.Lane) bool { return lane.User == "" })
	}
}
