package upstream

import (
	"time"
)

// Where reads go (Config.ReadFrom).
const (
	ReadMaster  = "master"
	ReadReplica = "replica" // a replica, if one serves
	ReadNearest = "nearest" // the fastest of the master and its replicas
)

// unfitFor is how long no session reads from a replica that did not serve a read.
const unfitFor = time.Second

// ReadsReplicas reports whether reads may go to replicas.
func (u *Upstream) ReadsReplicas() bool {
	return u.cfg.ReadFrom == ReadReplica || u.cfg.ReadFrom == ReadNearest
}

// Reader returns the node from which a session reads the slots of a master: one of its fit
// replicas, or the master. Sessions are distributed over equally good nodes by their number. The
// answer may change within a second. So a session asks only now and then, if it must not see older
// data than before.
func (u *Upstream) Reader(t *Topology, owner int, session int64) *Node {
	master := t.masters[owner]
	var good []*Node
	for _, n := range t.replicas[master] {
		if n.Fit() {
			good = append(good, n)
		}
	}
	if u.cfg.ReadFrom == ReadNearest {
		good = nearest(append(good, master))
	}
	if len(good) == 0 {
		return master
	}
	return good[session%int64(len(good))]
}

// nearest keeps the nodes whose round trip is about as short as the shortest.
func nearest(nodes []*Node) (near []*Node) {
	least := time.Duration(1<<63 - 1)
	for _, n := range nodes {
		least = min(least, n.RoundTrip())
	}
	for _, n := range nodes {
		if n.RoundTrip() <= least+least/4+roundTripTolerance {
			near = append(near, n)
		}
	}
	return near
}

// roundTripTolerance is how much round trips may differ and still count as equal. Measurements on
// one machine vary as much.
const roundTripTolerance = 200 * time.Microsecond

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
	n.up.stats.roundTrips.Observe(d)
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
