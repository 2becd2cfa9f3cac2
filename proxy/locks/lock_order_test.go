package locks_test

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestR15ReleaseAfterTheData checks that a pipelined SET and RELEASE on different nodes stay in
// order: the next holder reads the new value, however slow the data node is (R15).
func TestR15ReleaseAfterTheData(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: 20 * time.Second})
	l := proxytest.Start(t, c.Addrs())
	stock, order := proxytest.KeyOn(t, c, c.Nodes[0], "stock"), proxytest.KeyOn(t, c, c.Nodes[1], "order")
	holder, next := l.Dial(t), l.Dial(t)
	for i := range 10 {
		proxytest.Token(t, holder, order)
		if err := next.Send(redistest.Command("LOCK.ACQUIRE", order, "BLOCK", "0") +
			redistest.Command("GET", stock)); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "it waits", func() bool { return l.Locks.Stats().Waiters == 1 })
		if err := c.Nodes[0].Pause(); err != nil {
			t.Fatal(err)
		}
		value := strconv.Itoa(i)
		if err := holder.Send(redistest.Command("SET", stock, value) +
			redistest.Command("LOCK.RELEASE", order)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // a chance to go wrong; the lock must not be free yet
		if n := l.Locks.Stats().Waiters; n != 1 {
			t.Fatalf("%d waiters while the data is not written", n)
		}
		if err := c.Nodes[0].Resume(); err != nil {
			t.Fatal(err)
		}
		for _, wanted := range []string{"+OK\r\n", ":1\r\n"} {
			if got, err := holder.Read(); got != wanted {
				t.Fatalf("got %q %v, want %q", got, err, wanted)
			}
		}
		if got, err := next.Read(); err != nil || got[0] != ':' {
			t.Fatalf("got %q %v", got, err)
		}
		if got, err := next.Read(); got != fmt.Sprintf("$1\r\n%s\r\n", value) {
			t.Fatalf("round %d: next holder reads %q %v", i, got, err)
		}
		next.Want(t, ":1\r\n", "LOCK.RELEASE", order)
	}
}

// TestR16ResetClientsCallsComeFirst checks that the LOCK.RELEASE of a client that is reset does not
// overtake its earlier SET, even with unread output (R15, R16).
func TestR16ResetClientsCallsComeFirst(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: 60 * time.Second})
	l := proxytest.Start(t, c.Addrs(), func(o *proxytest.Options) { o.Upstream.UpstreamTimeout = 30 * time.Second })
	other := l.Dial(t)
	order, big, stock := proxytest.KeyOn(t, c, c.Nodes[0], "order"), proxytest.KeyOn(t, c, c.Nodes[0], "big"),
		proxytest.KeyOn(t, c, c.Nodes[1], "stock")
	other.Want(t, "+OK\r\n", "SET", big, strings.Repeat("v", 16<<20))
	conn, err := net.Dial("tcp", l.Addr)
	if err != nil {
		t.Fatal(err)
	}
	holder := redistest.NewClient(conn)
	proxytest.Token(t, holder, order)
	if err := c.Nodes[1].Pause(); err != nil { // the data node is slow
		t.Fatal(err)
	}
	if err := holder.Send(redistest.Command("GET", big) + redistest.Command("SET", stock, "6") +
		redistest.Command("LOCK.RELEASE", order)); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "output waits for the client", func() bool { return l.Unread() > 1<<20 })
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
	proxytest.Eventually(t, "Leash has noticed", func() bool { return l.Unread() <= 1<<20 })
	other.Want(t, "$-1\r\n", "LOCK.ACQUIRE", order)
	if err := c.Nodes[1].Resume(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "the data arrives", func() bool { return other.Reply(t, "GET", stock) == "$1\r\n6\r\n" })
	other.Want(t, "$-1\r\n", "LOCK.ACQUIRE", order) // R28: a reset lets it run out
}
