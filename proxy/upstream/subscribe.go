package upstream

import (
	"slices"

	"leash/proxy/dial"
	"leash/proxy/links"
)

// HasShardedChannels reports whether the upstream knows SSUBSCRIBE: Redis 7 and later. The embedded
// Redis does not, and reports no version.
func (u *Upstream) HasShardedChannels() bool {
	_, _, known := u.release()
	return known && !u.IsBefore(7, 0)
}

// ReceivesMessages reports whether published messages reach a node: a master, or a replica that
// works according to the cluster. It keeps the node open for a while, so that a subscriber can stay
// there.
func (u *Upstream) ReceivesMessages(n *links.Node) bool {
	if slices.Contains(u.Topology().Masters(), n) {
		return true
	}
	u.mu.Lock()
	member := u.members[n.Addr] && u.Nodes.Known(n.Addr) == n
	u.mu.Unlock()
	if member {
		n.Use()
	}
	return member
}

// SubscriberLane is the lane for a user's subscriptions. If the user's password may change while
// Leash runs, it has RESP3. In RESP2, Redis takes no AUTH from a subscriber.
func (u *Upstream) SubscriberLane(user string) dial.Lane {
	return dial.Lane{User: user, RESP3: u.cfg.ReadPassword != nil && u.Dialer.IsOwn(user) && u.SpeaksRESP3()}
}
