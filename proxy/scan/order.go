package scan

import (
	"hash/fnv"
	"slices"
	"strings"

	"leash/proxy/links"
	"leash/proxy/slots"
	"leash/proxy/topology"
)

// order is the order in which SCAN visits the masters of a topology. They are sorted by
// address, so the order stays the same when slots move. Immutable.
type order struct {
	topology *topology.Snapshot
	stops    []stop
	check    uint32 // distinguishes this topology's slots from those of others
}

// stop is one node in the order. Its name in a cursor is a hash of its address. In the pass once,
// the check is added, so a cursor of that pass names no stop after slots have moved.
type stop struct {
	node *links.Node
	hash uint32
}

// order returns the order for t. It makes the order once for each topology.
func (s *Scans) order(t *topology.Snapshot) *order {
	if o := s.latest.Load(); o != nil && o.topology == t {
		return o
	}
	o := newOrder(t)
	s.latest.Store(o)
	return o
}

func newOrder(t *topology.Snapshot) *order {
	o := &order{topology: t}
	nodes := slices.Clone(t.Holders())
	slices.SortFunc(nodes, func(a, b *links.Node) int { return strings.Compare(a.Addr, b.Addr) })
	for _, n := range nodes {
		hash := hashOf(n.Addr)
		for o.named(hash) >= 0 {
			hash = (hash + 1) % (1 << nameBits)
		}
		o.stops = append(o.stops, stop{n, hash})
	}
	var owners strings.Builder
	for slot := range slots.Slot(slots.Count) {
		if owner := t.Node(slot); owner != nil {
			owners.WriteString(owner.Addr)
		}
		owners.WriteByte('\n')
	}
	o.check = hashOf(owners.String())
	return o
}

// hashOf returns a hash of nameBits bits. All Leashes must have the same one.
func hashOf(text string) uint32 {
	sum := fnv.New64a()
	sum.Write([]byte(text))
	h := sum.Sum64()
	h ^= h >> 32
	return uint32(h * 0x9e3779b97f4a7c15 >> (64 - nameBits))
}

func (o *order) named(hash uint32) int {
	return slices.IndexFunc(o.stops, func(s stop) bool { return s.hash == hash })
}

// nameMask is what the names of a pass have more than the hashes of the stops.
func (o *order) nameMask(p pass) uint32 {
	if p == once {
		return o.check
	}
	return 0
}

// find returns the stop that a cursor names, or -1 if the cursor belongs to another topology.
func (o *order) find(c cursor) int { return o.named(c.name ^ o.nameMask(c.pass)) }

// cursor returns the cursor for the client after a node has answered with its own cursor. The zero
// cursor ends the scan.
func (o *order) cursor(stop int, p pass, local uint64) cursor {
	if local == 0 {
		if stop++; stop == len(o.stops) {
			return o.endOf(p)
		}
	}
	return cursor{p, o.stops[stop].hash ^ o.nameMask(p), local}
}

// endOf returns the cursor after the last stop of a pass.
func (o *order) endOf(p pass) cursor {
	switch p {
	case once:
		return cursor{between, o.check, afterOnce}
	case first:
		return cursor{between, o.check, afterFirst}
	}
	return cursor{}
}
