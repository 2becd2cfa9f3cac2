package links

import (
	"time"
)

// unfitFor is how long no session reads from a replica that did not serve a read.
const unfitFor = time.Second

// Fit reports whether the node can be read from, as far as is known.
func (n *Node) Fit() bool {
	return !n.unresponsive.Load() && time.Now().UnixNano() >= n.unfitUntil.Load()
}

// Unfit records that the node did not serve a read. It syncs with its master, has lost it, or
// cannot be reached.
func (n *Node) Unfit() { n.unfitUntil.Store(time.Now().Add(unfitFor).UnixNano()) }

// RoundTrip returns how long a PING takes, as an average that favours the last ones. It is a second
// before the first.
func (n *Node) RoundTrip() time.Duration {
	if d := n.roundTrip.Load(); d != 0 {
		return time.Duration(d)
	}
	return time.Second
}

// measured adds the time of one more PING to the average.
func (n *Node) measured(d time.Duration) {
	n.nodes.stats.roundTrips.Observe(d)
	if old := time.Duration(n.roundTrip.Load()); old != 0 {
		d = old - old/4 + d/4
	}
	n.roundTrip.Store(int64(max(d, 1)))
}

// ReadsReplica reports whether the link is for reads from a replica.
func (l *Link) ReadsReplica() bool { return l.lane.Replica }

// breakReaders ends the connections for reads from the node as a replica. The reads go elsewhere.
func (n *Node) breakReaders() {
	n.eachLink(func(l *Link) {
		if l.lane.Replica {
			l.breakConn(errSilent)
		}
	})
}
