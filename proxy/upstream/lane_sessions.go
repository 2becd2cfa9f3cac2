package upstream

// Join and Leave count the sessions of a lane. When the last session leaves, the lane's links are
// closed. When the user's last session leaves, in whichever lane, the credential is forgotten. The
// lane of new connections stays.
//
// A session joins a lane before it authenticates for it. Otherwise another session's Leave could
// remove the credential that Redis accepted.
func (u *Upstream) Join(lane Lane) {
	u.mu.Lock()
	u.sessions[lane]++
	u.users[lane.User]++
	u.mu.Unlock()
}

// Leave is the opposite of Join.
func (u *Upstream) Leave(lane Lane) {
	u.mu.Lock()
	u.sessions[lane]--
	u.users[lane.User]--
	last := u.sessions[lane] == 0
	if last {
		delete(u.sessions, lane)
	}
	if u.users[lane.User] == 0 {
		delete(u.users, lane.User)
		if lane.User != u.ServiceUser() {
			u.credentials.forget(lane.User)
		}
	}
	var nodes []*Node
	if last && !lane.fresh() {
		nodes = u.nodesLocked()
	}
	u.mu.Unlock()
	for _, n := range nodes {
		n.closeLane(lane, ErrClosed)
	}
}

// unused reports whether a lane has no session.
func (u *Upstream) unused(lane Lane) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sessions[lane] == 0
}

// ServiceLane is the lane of Config.User, for sessions that may use it. Without a configured
// credential it is the lane of new connections.
func (u *Upstream) ServiceLane() Lane {
	if u.cfg.User == "" && u.cfg.Password == "" {
		return Lane{}
	}
	return Lane{User: u.ServiceUser()}
}

// ServiceUser is the ACL user of Leash's own connections.
func (u *Upstream) ServiceUser() string {
	if u.cfg.User == "" {
		return "default"
	}
	return u.cfg.User
}
