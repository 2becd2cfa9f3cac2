package proxy

import (
	"hash/fnv"
	"slices"
	"strings"

	"leash/proxy/upstream"
)

// scanOrder is the order in which SCAN visits the masters of a topology. They are sorted by
// address, so the order stays the same when slots move. Immutable.
type scanOrder struct {
	topology *upstream.Topology
	stops    []scanStop
	check    uint32 // 8 bits that distinguish this topology's slots from those of others
}

// scanStop is one master in the order. A cursor names it. In the pass scanOnce, the name is the
// lowest slot that the master owns, with the topology's check in the high bits. In the other
// passes, in which its slots may move, the name is a hash of its address.
type scanStop struct {
	node *upstream.Node
	slot int // its lowest slot; -1: it owns none
	hash uint32
}

// slotBits is how many bits of a name hold the slot. The other bits hold the check.
const slotBits = 14

// scanOrder returns the order for t. It makes the order once for each topology.
func (s *Server) scanOrder(t *upstream.Topology) *scanOrder {
	if o := s.scanning.Load(); o != nil && o.topology == t {
		return o
	}
	o := newScanOrder(t)
	s.scanning.Store(o)
	return o
}

func newScanOrder(t *upstream.Topology) *scanOrder {
	o := &scanOrder{topology: t}
	for _, n := range t.Holders() {
		o.stops = append(o.stops, scanStop{node: n, slot: -1})
	}
	slices.SortFunc(o.stops, func(a, b scanStop) int { return strings.Compare(a.node.Addr, b.node.Addr) })
	hashes := make(map[*upstream.Node]uint64)
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
	for slot := upstream.SlotCount - 1; slot >= 0; slot-- {
		if owner := t.Node(uint16(slot)); owner != nil {
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

func (o *scanOrder) index(n *upstream.Node) int {
	return slices.IndexFunc(o.stops, func(s scanStop) bool { return s.node == n })
}

func (o *scanOrder) named(hash uint32) int {
	return slices.IndexFunc(o.stops, func(s scanStop) bool { return s.hash == hash })
}

// name returns the name of the stop in a cursor.
func (o *scanOrder) name(stop int, pass scanPass) uint32 {
	if pass == scanOnce {
		return uint32(o.stops[stop].slot) | o.check<<slotBits
	}
	return o.stops[stop].hash
}

// find returns the stop that a cursor names, or -1 if the cursor belongs to another topology.
func (o *scanOrder) find(c scanCursor) int {
	if c.pass != scanOnce {
		return o.named(c.name)
	}
	if c.name>>slotBits != o.check {
		return -1
	}
	return o.index(o.topology.Node(uint16(c.name & (1<<slotBits - 1))))
}

// next returns the stop after the given one in a pass, or -1 after the last. With -1 it returns the
// first. scanOnce leaves out nodes without slots. Such a node has keys only while a slot migrates
// to it.
func (o *scanOrder) next(stop int, pass scanPass) int {
	for i := stop + 1; i < len(o.stops); i++ {
		if pass != scanOnce || o.stops[i].slot >= 0 {
			return i
		}
	}
	return -1
}

// cursor returns the cursor for the client after a node has answered with its own cursor. The zero
// cursor ends the scan.
func (o *scanOrder) cursor(stop int, pass scanPass, local uint64) scanCursor {
	if local == 0 {
		if stop = o.next(stop, pass); stop < 0 {
			return o.endOf(pass)
		}
	}
	return scanCursor{pass, o.name(stop, pass), local}
}

// endOf returns the cursor after the last stop of a pass.
func (o *scanOrder) endOf(pass scanPass) scanCursor {
	switch pass {
	case scanOnce:
		return scanCursor{scanBetween, o.check, afterOnce}
	case scanFirst:
		return scanCursor{scanBetween, o.check, afterFirst}
	}
	return scanCursor{}
}
