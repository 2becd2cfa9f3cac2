package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"leash/proxy/links"
	"leash/proxy/slots"
)

// maxMoves is how many moves of slots Changes names.
const maxMoves = 4

// With returns a copy in which n owns slot.
func (s *Snapshot) With(slot slots.Slot, n *links.Node) *Snapshot {
	next := *s
	next.masters = slices.Clone(s.masters)
	next.slotless = slices.DeleteFunc(slices.Clone(s.slotless), func(other *links.Node) bool { return other == n })
	next.owner[slot] = next.index(n)
	return &next
}

// Same reports whether both have the same nodes and the same owner for every slot. Either may be
// nil.
func (s *Snapshot) Same(other *Snapshot) bool {
	if s == nil || other == nil || s.cluster != other.cluster || len(s.masters) != len(other.masters) {
		return false
	}
	if !sameNodes(s.slotless, other.slotless) || !maps.EqualFunc(s.replicas, other.replicas, sameNodes) {
		return false
	}
	for slot := range slots.Slot(slots.Count) {
		if s.Node(slot) != other.Node(slot) {
			return false
		}
	}
	return true
}

// sameNodes reports whether both lists have the same nodes, in any order.
func sameNodes(a, b []*links.Node) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(n *links.Node) bool { return !slices.Contains(b, n) })
}

// Changes describes the changes since old, for the log.
func (s *Snapshot) Changes(old *Snapshot) string {
	var all []string
	for _, n := range s.masters {
		if !slices.Contains(old.masters, n) {
			all = append(all, n.Addr+" is a master")
		}
	}
	for _, n := range old.masters {
		if !slices.Contains(s.masters, n) {
			all = append(all, n.Addr+" is no master")
		}
	}
	all = append(all, s.moves(old)...)
	if len(all) == 0 {
		return "replicas, or masters without slots"
	}
	return strings.Join(all, ", ")
}

// moves describes the slots whose owner is not the one in old.
func (s *Snapshot) moves(old *Snapshot) (all []string) {
	type move struct{ from, to *links.Node }
	counts := make(map[move]int)
	var order []move
	for slot := range slots.Slot(slots.Count) {
		m := move{old.Node(slot), s.Node(slot)}
		if m.from == m.to {
			continue
		}
		if counts[m]++; counts[m] == 1 {
			order = append(order, m)
		}
	}
	for i, m := range order {
		if i == maxMoves {
			return append(all, "more slots moved")
		}
		all = append(all, fmt.Sprintf("%d slots from %s to %s", counts[m], nameOf(m.from), nameOf(m.to)))
	}
	return all
}

func nameOf(n *links.Node) string {
	if n == nil {
		return "nobody"
	}
	return n.Addr
}
