package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// fill puts n keys into slot and returns their names.
func fill(t *testing.T, c *Cluster, slot, n int) []string {
	t.Helper()
	keys := make([]string, n)
	at := Connect(t, c.MasterOf(slot).Addr)
	for i := range keys {
		keys[i] = KeyIn(slot, fmt.Sprint("k", i))
		at.Want("+OK\r\n", "SET", keys[i], "v")
	}
	return keys
}

func TestCommandsDuringAMove(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, ClusterOptions{})
	const slot = 5000
	from, to := c.Nodes[0], c.Nodes[2]
	keys := fill(t, c, slot, 4)
	source, target := Connect(t, from.Addr), Connect(t, to.Addr)
	ask := fmt.Sprintf("-ASK %d %s\r\n", slot, to.Addr)
	moved := fmt.Sprintf("-MOVED %d %s\r\n", slot, from.Addr)

	m, err := c.BeginMove(slot, to)
	if err != nil {
		t.Fatal(err)
	}
	source.Want("$1\r\nv\r\n", "GET", keys[0])
	source.Want(ask, "GET", KeyIn(slot, "new"))
	target.Want(moved, "GET", keys[0])

	if err := m.MoveKey(keys[0]); err != nil {
		t.Fatal(err)
	}
	source.Want(ask, "GET", keys[0])
	source.Want("$1\r\nv\r\n", "GET", keys[1])
	target.Want("+OK\r\n", "ASKING")
	target.Want("$1\r\nv\r\n", "GET", keys[0])
	if got := source.Do("MGET", keys[0], keys[1]); !strings.HasPrefix(got, "-TRYAGAIN ") {
		t.Errorf("got %q, want TRYAGAIN", got)
	}
	if err := m.Finish(); err == nil || !strings.Contains(err.Error(), "keys are left") {
		t.Errorf("got %v, want Finish refused", err)
	}
	if n, err := m.MoveKeys(2); n != 2 || err != nil {
		t.Errorf("moved %d, %v; want 2", n, err)
	}
	if n, err := m.MoveKeys(-1); n != 1 || err != nil {
		t.Errorf("moved %d, %v; want the last", n, err)
	}
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes[:2] {
		Connect(t, n.Addr).Want(fmt.Sprintf("-MOVED %d %s\r\n", slot, to.Addr), "GET", keys[0])
	}
	target.Want("*2\r\n$1\r\nv\r\n$1\r\nv\r\n", "MGET", keys[0], keys[3])
	if got := c.MasterOf(slot); got != to {
		t.Errorf("got master %v, want the target", got)
	}
}

func TestAbortMovesBack(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, ClusterOptions{})
	const slot = 12000
	keys := fill(t, c, slot, 3)
	m, err := c.BeginMove(slot, c.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.MoveKeys(2); err != nil {
		t.Fatal(err)
	}
	if err := m.Abort(); err != nil {
		t.Fatal(err)
	}
	source := Connect(t, m.From.Addr)
	source.Want(":3\r\n", append([]string{"EXISTS"}, keys...)...)
	source.Want("$-1\r\n", "GET", KeyIn(slot, "new"))
}

func TestMoveSlotAndBack(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, ClusterOptions{Replicas: 1, Password: "secret"})
	client := c.Nodes[0].Client()
	key := KeyIn(7, "k")
	if err := client.Set(t.Context(), key, "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, to := range []*Node{c.Nodes[1], c.Nodes[2], c.Nodes[0]} {
		if err := c.MoveSlot(7, to); err != nil {
			t.Fatal(err)
		}
		if got, err := to.Client().Get(t.Context(), key).Result(); got != "v" || err != nil {
			t.Fatalf("got %q, %v at the new master", got, err)
		}
		if err := c.AwaitStable(5 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMoveSlots(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, ClusterOptions{})
	keys := fill(t, c, 3, 250)
	if err := c.MoveSlots(c.Nodes[0], c.Nodes[1], 20); err != nil {
		t.Fatal(err)
	}
	for slot, want := range map[int]*Node{0: c.Nodes[1], 19: c.Nodes[1], 20: c.Nodes[0]} {
		if got := c.MasterOf(slot); got != want {
			t.Errorf("slot %d is at %s, want %s", slot, got.Addr, want.Addr)
		}
	}
	Connect(t, c.Nodes[1].Addr).Want(":250\r\n", append([]string{"EXISTS"}, keys...)...)
}
