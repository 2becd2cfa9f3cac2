package topology

import (
	"errors"
	"net"
	"slices"

	"leash/proxy/links"
	"leash/proxy/slots"
)

// ErrNotCovered means that no node owns a slot of the cluster.
var ErrNotCovered = errors.New("upstream: no node of the cluster owns any slot")

// Layout is what Redis says about its nodes, by address.
type Layout struct {
	Cluster  bool
	Ranges   []Range
	Slotless []string // working masters without slots; keys of a migrating slot may be there
	Peers    []string // of a cluster: every address that may know the topology
	IDs      []string // of the nodes of a cluster
	Healthy  []string // addresses that work
	Replicas int      // how many of them work; -1 for unknown
}

// Range is a range of slots with one owner.
type Range struct {
	First, Last slots.Slot
	Addrs       []string // of the master, and then of its replicas
}

// Single is the layout of a single Redis and its working replicas.
func Single(master string, replicas []string) Layout {
	all := Range{0, slots.Count - 1, slices.Concat([]string{master}, replicas)}
	return Layout{Ranges: []Range{all}, Healthy: replicas, Replicas: len(replicas)}
}

// ParseCluster reads the replies to CLUSTER SLOTS, decoded by resp.Decode, and to CLUSTER NODES,
// which may be empty. asked is the address that has answered. names means that nodes which have
// host names are reached only by these. Invalid entries are left out. The error is ErrNotCovered if
// nothing is left.
func ParseCluster(reply []any, nodes, asked string, names bool) (Layout, error) {
	l := Layout{Cluster: true, Ranges: parseSlots(reply, asked), Replicas: -1}
	if len(l.Ranges) == 0 {
		return Layout{}, ErrNotCovered
	}
	if nodes != "" {
		l.Replicas = 0
	}
	names = names && slices.ContainsFunc(l.Ranges, Range.isNamed)
	for _, n := range parseNodes(nodes, asked) {
		n.addTo(&l, names)
	}
	for _, r := range l.Ranges {
		for _, addr := range r.Addrs {
			if !slices.Contains(l.Peers, addr) {
				l.Peers = append(l.Peers, addr)
			}
		}
	}
	return l, nil
}

// isNamed reports whether the master is reached by a host name. With TLS, certificates then usually
// have no IP addresses.
func (r Range) isNamed() bool {
	host, _, err := net.SplitHostPort(r.Addrs[0])
	return err == nil && net.ParseIP(host) == nil
}

// Members returns the addresses of masters and replicas that work according to the cluster. CLUSTER
// SLOTS leaves out a new replica, such as a demoted master, until it has received a write.
func (l Layout) Members() map[string]bool {
	members := make(map[string]bool)
	for _, r := range l.Ranges {
		for _, addr := range r.Addrs {
			members[addr] = true
		}
	}
	for _, addr := range slices.Concat(l.Healthy, l.Slotless) {
		members[addr] = true
	}
	return members
}

// Worth tells which of several nodes knows the cluster best. It is slots.Count if each slot has an
// owner and at least half of the nodes with these ids are there. Otherwise it is less, and 0 or
// less without these nodes. A node without them has just joined or left, or belongs to another
// cluster now.
func (l Layout) Worth(ids []string) (worth int) {
	for _, r := range l.Ranges {
		worth += int(r.Last-r.First) + 1
	}
	if len(l.IDs) > 0 && 2*l.common(ids) < len(ids) {
		worth -= slots.Count
	}
	return worth
}

// Knows reports whether one of the nodes with these ids is there. It is true if either side has no
// ids.
func (l Layout) Knows(ids []string) bool {
	return len(l.IDs) == 0 || len(ids) == 0 || l.common(ids) > 0
}

// common is how many of the ids are those of nodes that are there.
func (l Layout) common(ids []string) (n int) {
	for _, id := range ids {
		if slices.Contains(l.IDs, id) {
			n++
		}
	}
	return n
}

// Snapshot returns the layout with a node for each address. Without replicas, node is called for
// masters only.
func (l Layout) Snapshot(node func(addr string) *links.Node, replicas bool) *Snapshot {
	s := &Snapshot{cluster: l.Cluster, count: l.Replicas}
	for slot := range s.owner {
		s.owner[slot] = noOwner
	}
	for _, r := range l.Ranges {
		master := node(r.Addrs[0])
		i := s.index(master)
		for slot := r.First; slot <= r.Last; slot++ {
			s.owner[slot] = i
		}
		if replicas {
			for _, addr := range r.Addrs[1:] {
				s.addReplica(master, node(addr))
			}
		}
	}
	for _, addr := range l.Slotless {
		s.slotless = append(s.slotless, node(addr))
	}
	return s
}

// index returns the index of n among the masters, and adds it if it is new. It may be called only
// while s is being built.
func (s *Snapshot) index(n *links.Node) uint16 {
	i := slices.Index(s.masters, n)
	if i < 0 {
		i = len(s.masters)
		s.masters = append(s.masters, n)
	}
	return uint16(i)
}

// addReplica adds a replica of a master. It may be called only while s is being built.
func (s *Snapshot) addReplica(master, n *links.Node) {
	if s.replicas == nil {
		s.replicas = make(map[*links.Node][]*links.Node)
	}
	if !slices.Contains(s.replicas[master], n) {
		s.replicas[master] = append(s.replicas[master], n)
	}
}
