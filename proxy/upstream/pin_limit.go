package upstream

import (
	"strconv"
	"strings"
	"sync/atomic"
)

// Pinned connections could use up all that Redis allows (maxclients). Then the shared links could
// not be made again, and no session would be served. So a node gives out a limited number of pinned
// connections.

const (
	defaultMaxClients = 10000 // Redis's own, where it cannot be asked
	// connections of maxclients for everything else, at least, as far as half of it allows
	reserved = 32
)

// Refusal is why there is no connection for a call, in words for the client. The call was not sent.
type Refusal struct {
	Reason string // begins with a lower-case letter, no end mark
}

// Error implements error.
func (r *Refusal) Error() string { return "upstream: " + r.Reason }

var (
	errPinLimit  = &Refusal{"clients already have --max-pinned connections to that node to themselves"}
	errRedisFull = &Refusal{"Redis accepts no more connections (maxclients)"}
)

// pinCounts are of one node.
type pinCounts struct {
	used    atomic.Int64 // private links that sessions have
	refused atomic.Int64 // private links that were refused for the limit
}

// PinnedAt is the use of private links of a node.
type PinnedAt struct {
	Addr    string
	Used    int64 // by sessions
	Limit   int   // for those in use and those kept for reuse
	Refused int64 // so far
}

// PinnedPerNode returns the use of private links of each master. Safe for concurrent use; it does
// not block.
func (u *Upstream) PinnedPerNode() (all []PinnedAt) {
	for _, n := range u.Topology().Holders() {
		all = append(all, PinnedAt{n.Addr, n.counts.used.Load(), u.maxPinned(), n.counts.refused.Load()})
	}
	return all
}

// maxPinned is how many private links a node may have. Without Config.MaxPinned it is three
// quarters of what Redis allows, or what leaves the reserve.
func (u *Upstream) maxPinned() int {
	if u.cfg.MaxPinned > 0 {
		return u.cfg.MaxPinned
	}
	most := u.maxClients
	if most <= 0 {
		most = defaultMaxClients
	}
	return max(1, most-max(most/4, min(reserved, most/2)))
}

// setMaxClients reads maxclients from INFO, which has it since Redis 6.2.
func (u *Upstream) setMaxClients(info string) {
	if n, err := strconv.Atoi(infoField(info, "maxclients")); err == nil && n > 0 {
		u.maxClients = n
	}
}

// roomLocked reports whether the node may have one more private link. At the limit an idle one has
// to go. Node.mu is held.
func (n *Node) roomLocked() (room bool, old *Link) {
	if len(n.pins.all) < n.up.maxPinned() {
		return true, nil
	}
	for lane, idle := range n.pins.idle {
		if len(idle) > 0 {
			old = idle[0].link
			n.pins.idle[lane] = idle[1:]
			delete(n.pins.all, old) // it is as good as gone
			return true, old
		}
	}
	n.counts.refused.Add(1)
	return false, nil
}

// freeIdle closes unused private links when Redis has no room for a link that is needed.
func (n *Node) freeIdle() {
	n.mu.Lock()
	var old []*Link
	for lane := range n.pins.idle {
		old = append(old, n.idleLocked(lane)...)
	}
	n.mu.Unlock()
	for _, l := range old {
		l.close(ErrClosed)
	}
}

// isRedisFull reports whether Redis refused a connection because it has too many. It closes the
// connection behind that, so a client that has written already may see that end alone; then it
// dials again.
func isRedisFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "max number of clients")
}
