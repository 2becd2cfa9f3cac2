package proxy

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"leash/internal/redistest"
)

// TestMonitorShowsEveryNode checks that MONITOR shows the commands of all nodes until RESET.
func TestMonitorShowsEveryNode(t *testing.T) {
	t.Parallel()
	bothUpstreams(t, func(t *testing.T, l *leash, nodes []*redistest.Server) {
		m, c := l.dial(t), l.dial(t)
		want(t, m, "+OK\r\n", "MONITOR")
		for _, slot := range []int{1, 7000, 16000} {
			key := redistest.KeyIn(slot, "k")
			want(t, c, "+OK\r\n", "SET", key, "v")
			for {
				line, err := m.Read()
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(line, `"SET" "`+key+"\" \"v\"\r\n") {
					break
				}
			}
		}
		if err := m.Send(redistest.Command("RESET")); err != nil {
			t.Fatal(err)
		}
		for {
			line, err := m.Read()
			if err != nil {
				t.Fatal(err)
			}
			if line == "+RESET\r\n" {
				break
			}
		}
		want(t, c, "+OK\r\n", "SET", "k", "v")
		want(t, m, "$1\r\nv\r\n", "GET", "k")
		eventually(t, "no connection pinned", func() bool { return l.up.Nodes.Pinned() == 0 })
		if len(nodes) == 1 { // a user without the right
			if err := nodes[0].Client().Do(t.Context(), "ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all",
				"-monitor").Err(); err != nil {
				t.Fatal(err)
			}
			want(t, c, "+OK\r\n", "AUTH", "u", "x")
			want(t, c, "-NOPERM this user has no permissions to run the 'monitor' command\r\n", "MONITOR")
		}
	})
}

// TestMonitorEndsWithANode checks that MONITOR ends when a node is lost, because its output would
// be incomplete.
func TestMonitorEndsWithANode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := startLeash(t, cluster.Addrs())
	m := l.dial(t)
	want(t, m, "+OK\r\n", "MONITOR")
	if err := cluster.MasterOf(1).Kill(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := m.Read(); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
			break
		}
	}
	eventually(t, "no connection pinned", func() bool { return l.up.Nodes.Pinned() == 0 })
}
