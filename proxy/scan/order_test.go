package scan

import (
	"fmt"
	"testing"

	"leash/proxy/links"
	"leash/proxy/slots"
	"leash/proxy/topology"
)

// cluster is one whose nodes own every slot in turn. If one is set, only the first node has slots.
func cluster(nodes []*links.Node, one bool) *topology.Snapshot {
	l := topology.Layout{Cluster: true}
	known := make(map[string]*links.Node)
	for i, n := range nodes {
		known[n.Addr] = n
		if one && i > 0 {
			l.Slotless = append(l.Slotless, n.Addr)
		}
	}
	for slot := range slots.Slot(slots.Count) {
		owner := nodes[int(slot)%len(nodes)]
		if one {
			owner = nodes[0]
		}
		l.Ranges = append(l.Ranges, topology.Range{First: slot, Last: slot, Addrs: []string{owner.Addr}})
	}
	return l.Snapshot(func(addr string) *links.Node { return known[addr] }, false)
}

// nodes makes n nodes, the last address first.
func nodes(n int) (all []*links.Node) {
	for i := n - 1; i >= 0; i-- {
		all = append(all, &links.Node{Addr: fmt.Sprintf("10.0.0.%02d:7000", i)})
	}
	return all
}

// TestCursorsNameTheirNodes checks that each cursor of a scan comes back as it was, names its own
// node, and fits in 53 bits for nodes with up to 2^29 hash table entries.
func TestCursorsNameTheirNodes(t *testing.T) {
	o := newOrder(cluster(nodes(20), false))
	names := make(map[string]bool)
	for _, p := range []pass{once, first, second} {
		for stop := range o.stops {
			c := o.cursor(stop, p, 1<<29-1)
			n, err := c.number()
			if err != nil || n >= 1<<53 {
				t.Errorf("stop %d, pass %d: got %d, %v", stop, p, n, err)
			}
			back, ok := parseCursor(fmt.Append(nil, n))
			if !ok || back != c || o.find(back) != stop {
				t.Errorf("stop %d, pass %d: %+v came back as %+v", stop, p, c, back)
			}
			names[fmt.Sprint(p, c.name)] = true
		}
	}
	if len(names) != 60 {
		t.Errorf("%d names for 60 stops", len(names))
	}
	if _, err := (cursor{once, 1, 1 << 40}).number(); err == nil {
		t.Error("a cursor of 2^64 was made")
	}
	for _, text := range []string{"", "-1", "x", "18446744073709551616"} {
		if _, ok := parseCursor([]byte(text)); ok {
			t.Errorf("%q is a cursor", text)
		}
	}
}

// TestEveryNodeIsVisitedOnce follows the cursors of each pass, as if every node answered at once.
func TestEveryNodeIsVisitedOnce(t *testing.T) {
	for _, one := range []bool{false, true} {
		o := newOrder(cluster(nodes(5), one))
		for _, p := range []pass{once, first, second} {
			visited, before := 0, ""
			for stop := 0; stop >= 0; visited++ {
				if addr := o.stops[stop].node.Addr; addr <= before {
					t.Errorf("%s comes after %s", addr, before)
				} else {
					before = addr
				}
				c := o.cursor(stop, p, 0)
				if c.pass != p {
					if want := map[pass]cursor{
						once: {between, o.check, afterOnce}, first: {between, o.check, afterFirst}, second: {},
					}[p]; c != want {
						t.Errorf("pass %d ends with %+v, want %+v", p, c, want)
					}
					stop = -1
					continue
				}
				stop = o.find(c)
			}
			if visited != 5 {
				t.Errorf("pass %d visits %d nodes, want 5", p, visited)
			}
		}
	}
}

// TestMovedSlotsAreNoticed checks that a cursor of the only pass does not fit a topology whose
// slots have moved, and that those of the other passes do.
func TestMovedSlotsAreNoticed(t *testing.T) {
	all := nodes(3)
	before, after := newOrder(cluster(all, false)), newOrder(cluster(all, true))
	if got := after.find(before.cursor(1, once, 5)); got != -1 {
		t.Errorf("after a move, the cursor names stop %d", got)
	}
	if got := after.find(before.cursor(1, first, 5)); got != 1 {
		t.Errorf("after a move, the cursor of the first pass names stop %d, want 1", got)
	}
}

// TestReplies checks that replies are read as they were made, and that others are refused.
func TestReplies(t *testing.T) {
	const keys = "*1\r\n$1\r\nk\r\n"
	next, list, ok := ParseReply(reply(77, []byte(keys)))
	if next != 77 || string(list) != keys || !ok {
		t.Errorf("got %d, %q, %t", next, list, ok)
	}
	for _, odd := range []string{"", "-ERR no\r\n", "*2\r\n", "*1\r\n$1\r\n0\r\n", "*2\r\n$1\r\nx\r\n*0\r\n"} {
		if _, _, ok := ParseReply([]byte(odd)); ok {
			t.Errorf("%q is a reply to SCAN", odd)
		}
	}
}
