package clients_test

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestMonitorShowsEveryNode checks that MONITOR shows the commands of all nodes until RESET.
func TestMonitorShowsEveryNode(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		m, c := l.Dial(t), l.Dial(t)
		m.Want(t, "+OK\r\n", "MONITOR")
		for _, slot := range []int{1, 7000, 16000} {
			key := redistest.KeyIn(slot, "k")
			c.Want(t, "+OK\r\n", "SET", key, "v")
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
		c.Want(t, "+OK\r\n", "SET", "k", "v")
		m.Want(t, "$1\r\nv\r\n", "GET", "k")
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
		if len(nodes) == 1 { // a user without the right
			if err := nodes[0].Client().Do(t.Context(), "ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all",
				"-monitor").Err(); err != nil {
				t.Fatal(err)
			}
			c.Want(t, "+OK\r\n", "AUTH", "u", "x")
			c.Want(t, "-NOPERM this user has no permissions to run the 'monitor' command\r\n", "MONITOR")
		}
	})
}

// TestMonitorEndsWithANode checks that MONITOR ends when a node is lost, because its output would
// be incomplete.
func TestMonitorEndsWithANode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, cluster.Addrs())
	m := l.Dial(t)
	m.Want(t, "+OK\r\n", "MONITOR")
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
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}
