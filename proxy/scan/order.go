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
	check    uint32 // 8 bits that distinguish this topology's slots from those of others
}

// stop is one master in the order. A cursor names it. In the pass once, the name is the
// lowest slot that the master owns, with the topology's check in the high bits. In the other
// passes, in which its slots may move, the name is a hash of its address.
type stop struct {
	node *links.Node
	slot slots.Slot // its lowest slot; slots.Any: it owns none
	hash uint32
}

// slotBits is how many bits of a name hold the slot. The other bits hold the check.
const slotBits = 14

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
	for _, n := range t.Holders() {
		o.stops = append(o.stops, stop{node: n, slot: slots.Any})
	}
	slices.SortFunc(o.stops, func(a, b stop) int { return strings.Compare(a.node.Addr, b.node.Addr) })
	hashes := make(map[*links.Node]uint64)
	for i := range o.stops {
		stop := &o.stops[i]
		hashes[stop.node] = hashAddr(stop.node.Addr)
		hash := highBits(hashes[stop.node], nameBits)
		for o.named(hash) >= 0 {
			hash = (hash + 1) % (1 << nameBits)
		}
		stop.hash = hash
	}
	var sum uint64
	for slot := slots.Slot(slots.Count - 1); slot >= 0; slot-- {
		if owner := t.Node(slot); owner != nil {
			sum += hashes[owner] * uint64(2*slot+1)
			o.stops[o.index(owner)].slot = slot
		}
	}
	o.check = highBits(sum, nameBits-slotBits)
	return o
}

func hashAddr(addr string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(addr))
	return h.Sum64()
}

// highBits mixes a hash and returns n bits of it.
func highBits(h uint64, n int) uint32 {
	h ^= h >> 32
	return uint32(h * 0x9e3779b97f4a7c15 >> (64 - n))
}

func (o *order) index(n *links.Node) int {
	return slices.IndexFunc(o.stops, func(s stop) bool { return s.node == n })
}

func (o *order) named(hash uint32) int {
	return slices.IndexFunc(o.stops, func(s stop) bool { return s.hash == hash })
}

func (o *order) name(stop int, p pass) uint32 {
	if p == once {
		return uint32(o.stops[stop].slot) | o.check<<slotBits
	}
	return o.stops[stop].hash
}

// find returns the stop that a cursor names, or -1 if the cursor belongs to another topology.
func (o *order) find(c cursor) int {
	if c.pass != once {
		return o.named(c.name)
	}
	if c.name>>slotBits != o.check {
		return -1
	}
	return o.index(o.topology.Node(slots.Slot(c.name & (1<<slotBits - 1))))
}

// next returns the stop after the given one in a pass, or -1 after the last. With -1 it returns the
// first. once leaves out nodes without slots. Such a node has keys only while a slot migrates
// to it.
func (o *order) next(stop int, p pass) int {
	for i := stop + 1; i < len(o.stops); i++ {
		if p != once || o.stops[i].slot >= 0 {
			return i
		}
	}
	return -1
}

// cursor returns the cursor for the client after a node has answered with its own cursor. The zero
// cursor ends the scan.
func (o *order) cursor(stop int, p pass, local uint64) cursor {
	if local == 0 {
		if stop = o.next(stop, p); stop < 0 {
			return o.endOf(p)
		}
	}
	return cursor{p, o.name(stop, p), local}
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
