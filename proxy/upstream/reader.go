package upstream

import (
	"time"

	"leash/proxy/links"
	"leash/proxy/topology"
)

// Where reads go (Config.ReadFrom).
const (
	ReadMaster  = "master"
	ReadReplica = "replica" // a replica, if one serves
	ReadNearest = "nearest" // the fastest of the master and its replicas
)

// ReadsReplicas reports whether reads may go to replicas.
func (u *Upstream) ReadsReplicas() bool {
	return u.cfg.ReadFrom == ReadReplica || u.cfg.ReadFrom == ReadNearest
}

// Reader returns the node from which a session reads the slots of a master: one of its fit
// replicas, or the master. Sessions are distributed over equally good nodes by their number. The
// answer may change within a second. So a session asks only now and then, if it must not see older
// data than before.
func (u *Upstream) Reader(t *topology.Snapshot, owner int, session int64) *links.Node {
	master := t.Masters()[owner]
	var good []*links.Node
	for _, n := range t.Replicas(master) {
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
func nearest(nodes []*links.Node) (near []*links.Node) {
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
