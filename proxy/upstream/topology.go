package upstream

import (
	"maps"
	"slices"

	"leash/proxy/links"
	"leash/proxy/slots"
)

// Topology says which node owns which slot. It is immutable. A change is a new Topology
// (Upstream.Topology), so a session keeps one consistent view until it asks again.
type Topology struct {
	cluster  bool
	masters  []*links.Node
	slotless []*links.Node                 // masters that own no slot; one may be migrating to them
	owner    [slots.Count]uint16           // index into masters, noOwner for none
	replicas map[*links.Node][]*links.Node // of each master; empty if no session reads from them

	// Only for the log: the number of replicas, even if no session reads from them.
	replicaCount  int
	replicasKnown bool
}

const noOwner = 1<<16 - 1

// Cluster reports whether the upstream is a Redis Cluster. A single Redis owns every slot and
// allows commands with keys of several slots.
func (t *Topology) Cluster() bool { return t.cluster }

// Masters returns all nodes that own slots. The slice must not be changed.
func (t *Topology) Masters() []*links.Node { return t.masters }

// Holders returns all nodes that may have keys. The masters come first. Then come nodes that own no
// slot but may get keys of a migrating slot. The slice must not be changed.
func (t *Topology) Holders() []*links.Node {
	if len(t.slotless) == 0 {
		return t.masters
	}
	return slices.Concat(t.masters, t.slotless)
}

// Owner returns the index into Masters of the slot's owner, or -1.
func (t *Topology) Owner(slot slots.Slot) int {
	if slot == slots.Any || t.owner[slot] == noOwner {
		return -1
	}
	return int(t.owner[slot])
}

// Node returns the owner of a slot, or nil if it has none.
func (t *Topology) Node(slot slots.Slot) *links.Node {
	if i := t.Owner(slot); i >= 0 {
		return t.masters[i]
	}
	return nil
}

// Cluster reports whether the newest topology is one of a Redis Cluster.
func (u *Upstream) Cluster() bool { return u.Topology().Cluster() }

// NodeOf is the node that serves a slot now, or nil. slots.Any counts as slot 0.
func (u *Upstream) NodeOf(slot slots.Slot) *links.Node { return u.Topology().Node(max(slot, 0)) }

// NodeAddr is the address of the node that serves a slot now, or "" if there is none.
func (u *Upstream) NodeAddr(slot slots.Slot) string {
	if n := u.NodeOf(slot); n != nil {
		return n.Addr
	}
	return ""
}

// Owners gives the index of the master that serves each slot now, or -1 if there is none. It is nil
// for a single Redis.
func (u *Upstream) Owners() []int {
	t := u.Topology()
	if !t.cluster {
		return nil
	}
	owners := make([]int, slots.Count)
	for slot := range owners {
		owners[slot] = t.Owner(slots.Slot(slot))
	}
	return owners
}

// standalone is the topology of a single Redis.
func standalone(n *links.Node) *Topology { return &Topology{masters: []*links.Node{n}} }

// slotRange is a range of slots with one owner.
type slotRange struct {
	first, last slots.Slot
	node        *links.Node
	replicas    []*links.Node
}

func clusterOf(ranges []slotRange) *Topology {
	t := &Topology{cluster: true}
	for i := range t.owner {
		t.owner[i] = noOwner
	}
	for _, r := range ranges {
		i := t.index(r.node)
		for slot := r.first; slot <= r.last; slot++ {
			t.owner[slot] = i
		}
		t.addReplicas(r.node, r.replicas)
	}
	return t
}

// addReplicas sets the replicas of a master. It may be called only while t is being built.
func (t *Topology) addReplicas(master *links.Node, replicas []*links.Node) {
	for _, n := range replicas {
		if t.replicas == nil {
			t.replicas = make(map[*links.Node][]*links.Node)
		}
		if !slices.Contains(t.replicas[master], n) {
			t.replicas[master] = append(t.replicas[master], n)
		}
	}
}

// has reports whether n is a master or a replica.
func (t *Topology) has(n *links.Node) bool {
	if slices.Contains(t.masters, n) || slices.Contains(t.slotless, n) {
		return true
	}
	for _, replicas := range t.replicas {
		if slices.Contains(replicas, n) {
			return true
		}
	}
	return false
}

// with returns a copy of the topology in which n owns slot.
func (t *Topology) with(slot slots.Slot, n *links.Node) *Topology {
	next := &Topology{
		cluster: t.cluster, masters: slices.Clone(t.masters), owner: t.owner, replicas: t.replicas,
		replicaCount: t.replicaCount, replicasKnown: t.replicasKnown,
	}
	next.slotless = slices.DeleteFunc(slices.Clone(t.slotless), func(s *links.Node) bool { return s == n })
	next.owner[slot] = next.index(n)
	return next
}

// index returns the index of n among the masters, and adds it if it is new. It may be called only
// while t is being built.
func (t *Topology) index(n *links.Node) uint16 {
	i := slices.Index(t.masters, n)
	if i < 0 {
		i = len(t.masters)
		t.masters = append(t.masters, n)
	}
	return uint16(i)
}

// same reports whether both have the same nodes and the same owner for every slot.
func (t *Topology) same(u *Topology) bool {
	if t == nil || u == nil || t.cluster != u.cluster || len(t.masters) != len(u.masters) {
		return false
	}
	if !sameNodes(t.slotless, u.slotless) {
		return false
	}
	if !maps.EqualFunc(t.replicas, u.replicas, sameNodes) {
		return false
	}
	for slot := range t.owner {
		if t.Node(slots.Slot(slot)) != u.Node(slots.Slot(slot)) {
			return false
		}
	}
	return true
}

// sameNodes reports whether both lists have the same nodes, in any order.
func sameNodes(a, b []*links.Node) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(n *links.Node) bool { return !slices.Contains(b, n) })
}
