package upstream

import (
	"time"
)

// Where reads go (Config.ReadFrom).
const (
	ReadMaster  = "master"
	ReadReplica = "replica" // a replica where there is one that serves
	ReadNearest = "nearest" // whichever of the master and its replicas answers soonest
)

// unfitFor is how long no session reads from a replica that did not serve a read.
const unfitFor = time.Second

// ReadsReplicas reports whether reads may go to replicas.
func (u *Upstream) ReadsReplicas() bool {
	return u.cfg.ReadFrom == ReadReplica || u.cfg.ReadFrom == ReadNearest
}

// Reader returns the node from which a session reads the slots of a master: one of its fit
// replicas, or the master. Sessions are spread by their number over equally good nodes. The answer
// may change within a second. A session that must not see older data than before asks only now and
// then.
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
		if n.RoundTrip() <= least+least/4+nearEnough {
			near = append(near, n)
		}
	}
	return near
}

// nearEnough is what round trips may differ by and count as the same; noise of
// one machine is as large.
const nearEnough = 200 * time.Microsecond

// Fit reports whether the node can be read from, as far as is known.
func (n *Node) Fit() bool {
	return !n.unresponsive.Load() && time.Now().UnixNano() >= n.unfitUntil.Load()
}

// Unfit reports that the node did not serve a read: it syncs with its master, has lost it, or
// cannot be reached.
func (n *Node) Unfit() { n.unfitUntil.Store(time.Now().Add(unfitFor).UnixNano()) }

// RoundTrip is how long a PING takes, smoothed over the last ones; a second
// before the first.
func (n *Node) RoundTrip() time.Duration {
	if d := n.roundTrip.Load(); d != 0 {
		return time.Duration(d)
	}
	return time.Second
}

// measured takes the time of one more PING.
func (n *Node) measured(d time.Duration) {
	if old := time.Duration(n.roundTrip.Load()); old != 0 {
		d = old - old/4 + d/4
	}
	n.roundTrip.Store(int64(max(d, 1)))
}

// ReadsReplica reports whether the link is for reads from a replica.
func (l *Link) ReadsReplica() bool { return l.lane.Replica }

// breakReaders ends the connections on which a node is read from as a replica:
// the reads go elsewhere.
func (n *Node) breakReaders() {
	n.eachLink(func(l *Link) {
		if l.lane.Replica {
			l.breakConn(errSilent)
		}
	})
}
