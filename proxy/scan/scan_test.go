package scan_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/links"
	"leash/proxy/slots"
)

// wantKeys checks that all keys were returned.
func wantKeys(t testing.TB, seen map[string]int, keys []string) {
	t.Helper()
	missing := 0
	for _, key := range keys {
		if seen[key] == 0 {
			missing++
		}
	}
	if missing > 0 {
		t.Fatalf("%d of %d keys are missing", missing, len(keys))
	}
}

// TestScan checks that SCAN returns every key once while no slot moves, whichever Leash runs the
// next step.
func TestScan(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	first, second := proxytest.Start(t, c.Addrs()), proxytest.Start(t, c.Addrs())
	clients := []*redistest.Client{first.Dial(t), second.Dial(t), second.Dial(t)}
	clients[2].Reply(t, "HELLO", "3")
	keys := proxytest.Fill(t, clients[0], "key:", 3000)
	clients[0].Want(t, ":1\r\n", "SADD", "set:1", "x")
	for _, tc := range []struct {
		args []string
		n    int
	}{
		{nil, 3001}, {[]string{"COUNT", "1000"}, 3001}, {[]string{"count", "3", "MATCH", "key:1*"}, 1111},
		{[]string{"TYPE", "set"}, 1}, {[]string{"MATCH", "none"}, 0}, {[]string{"COUNT", "100000"}, 3001},
	} {
		seen := proxytest.ScanAll(t, 0, clients, tc.args...)
		twice := 0
		for _, n := range seen {
			twice += n - 1
		}
		if len(seen) != tc.n || twice > 0 {
			t.Errorf("%q: %d keys, %d of them twice, want %d", tc.args, len(seen), twice, tc.n)
		}
	}
	wantKeys(t, proxytest.ScanAll(t, 0, clients[:1]), keys)
}

// TestScanErrors checks that wrong arguments get Redis's errors.
func TestScanErrors(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{Masters: 1})
	l := proxytest.Start(t, c.Addrs())
	client, redis := l.Dial(t), proxytest.Dial(t, c.Addrs()[0])
	for _, args := range [][]string{
		{"SCAN"}, {"SCAN", "x"}, {"SCAN", "0x1"}, {"SCAN", "18446744073709551616"}, {"SCAN", "1 "}, {"SCAN", " 1"},
		{"SCAN", ""},
		{"SCAN", "0", "FOO"}, {"SCAN", "x", "FOO"}, {"SCAN", "0", "COUNT", "0"}, {"SCAN", "0", "COUNT", "x"},
		{"SCAN", "0", "COUNT"},
		{"SCAN", "0", "TYPE", "nonsense"}, {"SSCAN", "none", "0"}, {"HSCAN", "none", "x"},
		{"ZSCAN", "none", "0", "COUNT", "1"},
	} {
		got, wanted := client.Reply(t, args...), redis.Reply(t, args...)
		if got != wanted && !(strings.HasPrefix(got, "*2\r\n") && strings.HasPrefix(wanted, "*2\r\n")) {
			t.Errorf("%q: got %q, redis says %q", args, got, wanted)
		}
	}
}

// passed scans until the cursor names a second node. It returns the first node and the keys so far.
func passed(t *testing.T, l *proxytest.Leash, client *redistest.Client) (cursor uint64, through *links.Node,
	seen map[string]int) {
	t.Helper()
	seen = make(map[string]int)
	nodeName := func(cursor uint64) uint64 { return cursor >> 2 & (1<<22 - 1) }
	for firstNode := uint64(0); ; {
		next, keys := proxytest.ScanStep(t, client, cursor, "COUNT", "100")
		for _, key := range keys {
			seen[key]++
		}
		if cursor == 0 {
			firstNode = nodeName(next) // it has more keys than one page
		}
		if cursor = next; nodeName(cursor) != firstNode {
			return cursor, mastersInOrder(l)[0], seen
		}
	}
}

// mastersInOrder are the masters in the order in which SCAN visits them.
func mastersInOrder(l *proxytest.Leash) []*links.Node {
	return slices.SortedFunc(slices.Values(l.Upstream.Topology().Masters()), func(a, b *links.Node) int {
		return strings.Compare(a.Addr, b.Addr)
	})
}

// nodeAt returns the test node with the address of Leash's node n.
func nodeAt(t *testing.T, c *redistest.Cluster, n *links.Node) *redistest.Node {
	t.Helper()
	for _, one := range c.Nodes {
		if one.Announced() == n.Addr {
			return one
		}
	}
	t.Fatalf("no node at %s", n.Addr)
	return nil
}

// TestScanFindsKeysThatMoveBehindIt checks that SCAN returns keys whose slots move, wholly or in
// part, to a node that it has finished with.
func TestScanFindsKeysThatMoveBehindIt(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"finished", "under way", "to a node without slots"} {
		t.Run(how, func(t *testing.T) {
			c := redistest.StartCluster(t, redistest.ClusterOptions{})
			l := proxytest.Start(t, c.Addrs())
			client := l.Dial(t)
			keys := proxytest.Fill(t, client, "k", 3000)
			cursor, through, seen := passed(t, l, client)
			to := nodeAt(t, c, through)
			from := c.Nodes[(slices.Index(c.Nodes, to)+1)%3]
			if how == "to a node without slots" {
				var err error
				if to, err = c.AddMaster(); err != nil {
					t.Fatal(err)
				}
			}
			var moves []*redistest.Move
			moved := 0
			for _, key := range keys {
				slot := int(slots.Of([]byte(key)))
				if c.MasterOf(slot) != from || len(moves) >= 10 ||
					slices.ContainsFunc(moves, func(m *redistest.Move) bool { return m.Slot == slot }) {
					continue
				}
				m, err := c.BeginMove(slot, to)
				if err != nil {
					t.Fatal(err)
				}
				n, err := m.MoveKeys(-1)
				if err != nil {
					t.Fatal(err)
				}
				moved += n
				moves = append(moves, m)
				if how == "finished" {
					if err := m.Finish(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if moved < 10 {
				t.Fatalf("only %d keys have moved", moved)
			}
			maps.Copy(seen, proxytest.ScanAll(t, cursor, []*redistest.Client{client}))
			wantKeys(t, seen, keys)
		})
	}
}

// TestScanWhileSlotsMove checks that each scan returns every key while slots move between all
// nodes.
func TestScanWhileSlotsMove(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: 15 * time.Second})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	keys := proxytest.Fill(t, client, "k", 5000)
	stop := make(chan struct{})
	var moving sync.WaitGroup
	moves := 0
	moving.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			// Every slot moves once in a few scans, 1,000 at a time.
			slot := (i * 7) % slots.Count
			from := slices.Index(c.Nodes, c.MasterOf(slot))
			if err := c.MoveSlot(slot, c.Nodes[(from+1+i%2)%3]); err != nil {
				t.Error(err)
				return
			}
			moves++
		}
	})
	other := proxytest.Start(t, c.Addrs())
	clients := []*redistest.Client{client, other.Dial(t)}
	for range 5 {
		wantKeys(t, proxytest.ScanAll(t, 0, clients, "COUNT", "20"), keys)
	}
	close(stop)
	moving.Wait()
	t.Logf("%d slots have moved", moves)
	if moves < 20 {
		t.Errorf("only %d slots have moved", moves)
	}
}

// TestScanDuringFailover checks that a scan returns every key when a replica replaces the node
// that is being scanned. The replica has its keys in another order.
func TestScanDuringFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1})
	l := proxytest.Start(t, c.Addrs())
	client := l.Dial(t)
	keys := proxytest.Fill(t, client, "k", 3000)
	for _, n := range c.Nodes[:3] {
		if err := n.Client().Do(t.Context(), "WAIT", 1, 5000).Err(); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[string]int)
	cursor := uint64(0)
	for range 10 {
		next, some := proxytest.ScanStep(t, client, cursor, "COUNT", "30")
		for _, key := range some {
			seen[key]++
		}
		cursor = next
	}
	scanned := nodeAt(t, c, mastersInOrder(l)[0])
	if err := c.Failover(c.Nodes[slices.Index(c.Nodes, scanned)+3]); err != nil {
		t.Fatal(err)
	}
	maps.Copy(seen, proxytest.ScanAll(t, cursor, []*redistest.Client{client}))
	wantKeys(t, seen, keys)
}
