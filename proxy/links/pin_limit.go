package links

import (
	"strings"
	"sync/atomic"

	"leash/proxy/dial"
)

// Pinned connections could use up all connections that Redis allows (maxclients). Then the shared
// links could not be made again, and no session would be served. So the number of pinned
// connections to a node is limited.

const (
	defaultMaxClients = 10000 // Redis's default, used if Redis cannot be asked
	// connections that are left for everything else, but at most half of maxclients
	reserved = 32
)

var (
	errPinLimit  = &dial.Refusal{Reason: "clients already have --max-pinned connections to that node to themselves"}
	errRedisFull = &dial.Refusal{Reason: "Redis accepts no more connections (maxclients)"}
)

type pinCounts struct {
	used    atomic.Int64 // pinned links that sessions use
	refused atomic.Int64 // pinned links that were refused because of the limit
}

// PinnedAt describes the use of pinned links of a node.
type PinnedAt struct {
	Addr    string
	Used    int64 // by sessions
	Limit   int   // for links in use and links kept for reuse
	Refused int64 // since the start
}

// Pins returns the use of the node's pinned links. It does not block.
func (n *Node) Pins() PinnedAt {
	return PinnedAt{n.Addr, n.counts.used.Load(), n.nodes.maxPinned(), n.counts.refused.Load()}
}

// maxPinned returns how many pinned links a node may have. If SetMaxPinned has set no limit, it is
// three quarters of maxclients. If maxclients is so small that this leaves less than the reserve,
// the reserve is subtracted instead.
func (ns *Nodes) maxPinned() int {
	if n := ns.pinLimit.Load(); n > 0 {
		return int(n)
	}
	most := ns.Server.MaxClients
	if most <= 0 {
		most = defaultMaxClients
	}
	return max(1, most-max(most/4, min(reserved, most/2)))
}

// SetMaxPinned sets how many pinned links a node may have; 0 for Redis's maxclients less a reserve.
// Links above a lower limit stay. Safe for concurrent use.
func (ns *Nodes) SetMaxPinned(n int) { ns.pinLimit.Store(int64(n)) }

// roomLocked reports whether the node may have one more pinned link. At the limit, an idle one
// makes room: the caller must close old. Node.mu must be held.
func (n *Node) roomLocked() (room bool, old *Link) {
	if len(n.pins.all) < n.nodes.maxPinned() {
		return true, nil
	}
	for lane, idle := range n.pins.idle {
		if len(idle) > 0 {
			old = idle[0].link
			n.pins.idle[lane] = idle[1:]
			delete(n.pins.all, old) // the caller closes it
			return true, old
		}
	}
	n.counts.refused.Add(1)
	n.nodes.stats.pinsRefused.Add(1)
	return false, nil
}

// freeIdle closes unused pinned links when Redis has no room for a link that is needed.
func (n *Node) freeIdle() {
	n.mu.Lock()
	var old []*Link
	for lane := range n.pins.idle {
		old = append(old, n.idleLocked(lane)...)
	}
	n.mu.Unlock()
	closeAll(old, ErrClosed)
}

// isRedisFull reports whether Redis refused a connection because it has too many. Redis closes such
// a connection after the error. A client that has already written may see only the close. It then
// dials again.
func isRedisFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "max number of clients")
}
