package upstream

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Dial opens a connection to a node for the caller alone, set up for a lane like that of a link. It
// blocks for at most the redirect time-out to connect and the upstream time-out for the set-up. The
// caller closes the connection. The error is ErrRefused if Redis refuses the lane's credential.
func (u *Upstream) Dial(ctx context.Context, n *Node, lane Lane) (net.Conn, error) {
	return u.dial(ctx, n.Addr, lane, !n.Unresponsive())
}

// Go runs f as a goroutine that Run waits for. It returns false if the Upstream has stopped. f must
// end when its ctx is done. When f panics, it is started again.
func (u *Upstream) Go(what string, f func(ctx context.Context)) bool {
	return u.start(what, func() { f(u.ctx) })
}

// Timeout is the silence after which a node is lost.
func (u *Upstream) Timeout() time.Duration { return u.cfg.UpstreamTimeout }

// HasShardedChannels reports whether the upstream knows SSUBSCRIBE: Redis 7 and later. The embedded
// Redis does not, and reports no version.
func (u *Upstream) HasShardedChannels() bool {
	major, _, _ := strings.Cut(u.version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 7
}

// ReceivesMessages reports whether published messages reach a node: a master, or a replica that
// works according to the cluster. It keeps the node open for a while, so that a subscriber can stay
// there.
func (u *Upstream) ReceivesMessages(n *Node) bool {
	if slices.Contains(u.Topology().masters, n) {
		return true
	}
	u.mu.Lock()
	member := u.members[n.Addr] && u.nodes[n.Addr] == n
	u.mu.Unlock()
	if member {
		n.use()
	}
	return member
}

// SubscriberLane is the lane for a user's subscriptions. If the user's password may change while
// Leash runs, it has RESP3. In RESP2, Redis takes no AUTH from a subscriber.
func (u *Upstream) SubscriberLane(user string) Lane {
	return Lane{User: user, RESP3: u.cfg.ReadPassword != nil && u.isOwn(user) && u.SpeaksRESP3()}
}
