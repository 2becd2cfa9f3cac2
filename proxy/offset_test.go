package proxy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"leash/internal/redistest"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

func TestMovesByReading(t *testing.T) {
	for info, want := range map[string]bool{
		"$99\r\n# Server\r\nredis_version:7.0.15\r\n": true, "# Server\r\nredis_version:6.2.0\r\n": true,
		"# Server\r\nredis_version:7.2.4\r\n": false, "# Server\r\nredis_version:8.0.2\r\n": false,
		"# Server\r\nredis_version:10.0.0\r\n": false,
		"# Server\r\nredis_version:odd\r\n":    false, "-NOPERM no\r\n": false, "": false,
	} {
		if got := movesByReading([]byte(info)); got != want {
			t.Errorf("%q: got %v", info, got)
		}
	}
}

// TestOwnKey checks that a key can be made for a node with only one slot.
func TestOwnKey(t *testing.T) {
	t.Parallel()
	for i := range 100 {
		want := uint16(rand.N(upstream.SlotCount))
		key := ownKey(func(slot uint16) bool { return slot == want })
		if got := upstream.Slot([]byte(key)); got != want {
			t.Errorf("key %d, %q, is in slot %d, want %d", i, key, got, want)
		}
	}
}

// TestWriteNothing checks that the command that moves a node's replication offset is accepted and
// leaves no key behind.
func TestWriteNothing(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{Replicas: 1})
	l := startLeash(t, cluster.Addrs())
	topology := l.up.Topology()
	for _, n := range topology.Masters() {
		node := dialAddr(t, n.Addr)
		offset := func() string { return infoLine(do(t, node, "INFO", "replication"), "master_repl_offset") }
		before := offset()
		for _, request := range writeNothing(topology, n) {
			cmd, _ := resp.ParseRequest(request)
			args := make([]string, len(cmd.Args))
			for i, a := range cmd.Args {
				args[i] = string(a)
			}
			if reply := do(t, node, args...); strings.HasPrefix(reply, "-") {
				t.Errorf("%q: got %q", args, reply)
			}
		}
		if offset() == before {
			t.Error("the offset has not moved")
		}
		want(t, node, ":0\r\n", "DBSIZE")
	}
}
