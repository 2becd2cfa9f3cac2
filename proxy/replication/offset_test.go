package replication

import (
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"leash/internal/redistest"
	"leash/proxy/resp"
	"leash/proxy/slots"
	"leash/proxy/upstream"
)

// TestOwnKey checks that a key can be made for a node with only one slot.
func TestOwnKey(t *testing.T) {
	t.Parallel()
	for i := range 100 {
		want := slots.Slot(rand.N(slots.Count))
		key := ownKey(func(slot slots.Slot) bool { return slot == want })
		if got := slots.Of([]byte(key)); got != want {
			t.Errorf("key %d, %q, is in slot %d, want %d", i, key, got, want)
		}
	}
}

// TestWriteNothing checks that the command that moves a node's replication offset is accepted and
// leaves no key behind.
func TestWriteNothing(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1})
	up, err := upstream.New(upstream.Config{Addrs: cluster.Addrs()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	topology := up.Topology()
	for _, n := range topology.Masters() {
		node, err := redistest.Dial(n.Addr)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(args ...string) string {
			t.Helper()
			reply, err := node.Do(args...)
			if err != nil || strings.HasPrefix(reply, "-") {
				t.Fatalf("%q: %q, %v", args, reply, err)
			}
			return reply
		}
		offset := func() string {
			_, rest, _ := strings.Cut(ask("INFO", "replication"), "\r\nmaster_repl_offset:")
			value, _, _ := strings.Cut(rest, "\r\n")
			return value
		}
		before := offset()
		for _, request := range writeNothing(topology, n) {
			cmd, _ := resp.ParseRequest(request)
			args := make([]string, len(cmd.Args))
			for i, a := range cmd.Args {
				args[i] = string(a)
			}
			ask(args...)
		}
		if offset() == before {
			t.Error("the offset has not moved")
		}
		if got := ask("DBSIZE"); got != ":0\r\n" {
			t.Errorf("DBSIZE: %q", got)
		}
		_ = node.Close()
	}
}
