package topology

import (
	"slices"
	"testing"

	"leash/proxy/links"
	"leash/proxy/slots"
)

// nodesOf returns a function that returns the same node for the same address.
func nodesOf() func(addr string) *links.Node {
	known := make(map[string]*links.Node)
	return func(addr string) *links.Node {
		if known[addr] == nil {
			known[addr] = &links.Node{Addr: addr}
		}
		return known[addr]
	}
}

func addrsOf(nodes []*links.Node) (addrs []string) {
	for _, n := range nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// twoMasters is a cluster in which nobody owns the slots from 200. m2 has one replica, and m3 has
// no slot.
func twoMasters() Layout {
	return Layout{
		Cluster:  true,
		Ranges:   []Range{{0, 99, []string{"m1:1"}}, {100, 199, []string{"m2:1", "r2:1", "r2:1"}}},
		Slotless: []string{"m3:1"}, Replicas: 1,
	}
}

func TestSnapshotSaysWhoIsMaster(t *testing.T) {
	node := nodesOf()
	s := twoMasters().Snapshot(node, true)
	for slot, want := range map[slots.Slot]*links.Node{
		0: node("m1:1"), 99: node("m1:1"), 100: node("m2:1"), 199: node("m2:1"), 200: nil, 16383: nil, slots.Any: nil,
	} {
		if got := s.Node(slot); got != want {
			t.Errorf("slot %d: got %v, want %v", slot, got, want)
		}
		if i := s.Owner(slot); (i < 0) != (want == nil) || i >= 0 && s.Masters()[i] != want {
			t.Errorf("slot %d: owner %d", slot, i)
		}
	}
	if got := addrsOf(s.Holders()); !slices.Equal(got, []string{"m1:1", "m2:1", "m3:1"}) {
		t.Errorf("holders %q", got)
	}
	if got := addrsOf(s.Replicas(node("m2:1"))); !slices.Equal(got, []string{"r2:1"}) || s.Replicas(node("m1:1")) != nil {
		t.Errorf("replicas %q", got)
	}
	for addr, want := range map[string]bool{"m1:1": true, "m3:1": true, "r2:1": true, "other:1": false} {
		if s.Has(node(addr)) != want || s.IsSlotless(node(addr)) != (addr == "m3:1") {
			t.Errorf("%s: has %v, slotless %v", addr, s.Has(node(addr)), s.IsSlotless(node(addr)))
		}
	}
	if !s.Cluster() || s.ReplicaCount() != 1 {
		t.Errorf("cluster %v, %d replicas", s.Cluster(), s.ReplicaCount())
	}
}

// TestWithoutReplicas checks that nobody connects to replicas that no session reads from.
func TestWithoutReplicas(t *testing.T) {
	asked := make(map[string]bool)
	node := nodesOf()
	s := twoMasters().Snapshot(func(addr string) *links.Node { asked[addr] = true; return node(addr) }, false)
	if asked["r2:1"] || s.Replicas(node("m2:1")) != nil || s.ReplicaCount() != 1 {
		t.Errorf("nodes %v, %d replicas", asked, s.ReplicaCount())
	}
}

func TestSingleOwnsAll(t *testing.T) {
	node := nodesOf()
	s := Single("m:1", []string{"r:1"}).Snapshot(node, true)
	if s.Cluster() || s.Node(0) != node("m:1") || s.Node(16383) != node("m:1") || s.ReplicaCount() != 1 ||
		!slices.Equal(addrsOf(s.Masters()), []string{"m:1"}) || !slices.Equal(addrsOf(s.Replicas(node("m:1"))), []string{"r:1"}) {
		t.Errorf("got masters %v", addrsOf(s.Masters()))
	}
}

// TestWith checks that a slot gets its new owner in a copy, also one that had no slot.
func TestWith(t *testing.T) {
	node := nodesOf()
	before := twoMasters().Snapshot(node, true)
	after := before.With(5, node("m3:1"))
	if after.Node(5) != node("m3:1") || after.Node(6) != node("m1:1") || after.IsSlotless(node("m3:1")) {
		t.Errorf("got masters %v", addrsOf(after.Masters()))
	}
	if before.Node(5) != node("m1:1") || !before.IsSlotless(node("m3:1")) || len(before.Masters()) != 2 {
		t.Errorf("the old one has changed: %v", addrsOf(before.Masters()))
	}
	if got, want := after.Changes(before), "m3:1 is a master, 1 slots from m1:1 to m3:1"; got != want {
		t.Errorf("changes %q, want %q", got, want)
	}
}

func TestSameAndChanges(t *testing.T) {
	node := nodesOf()
	old := twoMasters().Snapshot(node, true)
	if !old.Same(twoMasters().Snapshot(node, true)) || old.Same(nil) {
		t.Error("the same layout is not the same, or is the same as none")
	}
	for want, change := range map[string]func(*Layout){
		"m1:1 is no master, 100 slots from m1:1 to m2:1": func(l *Layout) { l.Ranges[0].Addrs[0] = "m2:1" },
		"50 slots from m1:1 to m2:1":                     func(l *Layout) { l.Ranges[1].First = 50 },
		"10 slots from m2:1 to nobody":                   func(l *Layout) { l.Ranges[1].Last = 189 },
		"replicas, or masters without slots":             func(l *Layout) { l.Slotless = nil },
	} {
		l := twoMasters()
		change(&l)
		s := l.Snapshot(node, true)
		if s.Same(old) || s.Changes(old) != want {
			t.Errorf("same %v, got %q, want %q", s.Same(old), s.Changes(old), want)
		}
	}
	l := twoMasters()
	l.Ranges[1].Addrs = l.Ranges[1].Addrs[:1]
	if s := l.Snapshot(node, true); s.Same(old) {
		t.Error("a replica has left, and it is the same")
	}
}
