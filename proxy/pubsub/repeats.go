package pubsub

import (
	"hash/maphash"
	"slices"
	"time"

	"leash/proxy/links"
)

// The nodes of a cluster get a message one after the other. So when an entry's subscription moves
// to another node, that node may repeat messages of the earlier one. Messages have no IDs. So an
// entry remembers the hashes of recent messages and drops as many equal ones after the move. No
// message comes twice. But a message may be lost if the same bytes are published again during the
// move.
const (
	repeatWindow      = time.Second // largest delay between two nodes for one message
	maxRecentMessages = 1 << 15     // limit for each of two lists of recent messages
)

var digestSeed = maphash.MakeSeed()

type recentMessage struct {
	digest uint64 // of its frame
	at     time.Time
}

// history is what an entry has handed out during the last repeatWindow or slightly longer.
type history struct {
	recent, older []recentMessage
	since         time.Time // time of the oldest in recent
}

func (h *history) note(digest uint64, now time.Time) {
	if now.Sub(h.since) > repeatWindow || len(h.recent) >= maxRecentMessages {
		spare := h.older[:0]
		if cap(spare) > 4*len(h.recent)+64 {
			spare = nil
		}
		h.older, h.recent, h.since = h.recent, spare, now
	}
	h.recent = append(h.recent, recentMessage{digest, now})
}

// after counts the messages that were handed out after a time.
func (h *history) after(t time.Time) map[uint64]int {
	counts := make(map[uint64]int)
	for _, s := range slices.Concat(h.older, h.recent) {
		if s.at.After(t) {
			counts[s.digest]++
		}
	}
	return counts
}

// repeats are messages that the node of an entry's subscription may bring although another node has
// brought them. The zero value has none.
type repeats struct {
	left  map[uint64]int // by digest
	until time.Time
}

// take reports whether a message is a repeat, and removes it from the count.
func (r *repeats) take(digest uint64, now time.Time) bool {
	if now.After(r.until) {
		r.left = nil
	}
	if r.left[digest] == 0 {
		return false
	}
	r.left[digest]--
	return true
}

// moveLocked makes l the line whose messages count. asked is the time when Leash requested the
// subscription on l.
func (e *entry) moveLocked(l *line, asked time.Time) {
	if e.node != nil && e.node != l.node && e.mayRepeatLocked() {
		e.repeats = repeats{e.history.after(asked.Add(-repeatWindow)), time.Now().Add(repeatWindow)}
	}
	e.source, e.node = l, l.node
}

// mayRepeatLocked reports whether another node can repeat messages of e.node. A sharded message
// reaches the slot's owner and its replicas. If the old owner is still a master, the slot has moved
// to a node that has none of these messages.
func (e *entry) mayRepeatLocked() bool {
	return e.hub.topology.Cluster() && !(e.kind == Shard && e.hub.isMasterLocked(e.node))
}

// acceptsLocked reports whether to hand out a message that l brought at now. In a cluster, keyspace
// events count from every master, because no node passes them on. A replica repeats its master's
// events, so its events do not count.
func (e *entry) acceptsLocked(l *line, f *frame, now time.Time) bool {
	if !e.hub.topology.Cluster() {
		return e.source == l
	}
	if f.kind != Shard && isKeyspace(f.channel) {
		return l.master
	}
	if e.source != l {
		return false
	}
	digest := maphash.Bytes(digestSeed, f.raw)
	if e.repeats.take(digest, now) {
		return false
	}
	e.history.note(digest, now)
	return true
}

func (h *hub) isMasterLocked(n *links.Node) bool {
	return slices.Contains(h.topology.Masters(), n)
}

// promoteLocked updates which lines lead to masters. When a node becomes a master, its events count
// after its next answer to a PING. Its earlier events repeat those of its old master.
func (h *hub) promoteLocked() {
	for _, l := range h.lines {
		switch master := h.isMasterLocked(l.node); {
		case !master:
			l.master = false
		case !l.master:
			l.submitLocked(&request{ping: true, after: func(r *request) {
				l.master = r.lost == nil && h.isMasterLocked(l.node)
			}})
		}
	}
}
