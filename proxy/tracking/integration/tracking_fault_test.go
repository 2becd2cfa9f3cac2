package tracking_test

import (
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/call"
)

// readUntil reads frames until it gets the wanted one. The others must be among the allowed ones.
func readUntil(t *testing.T, c *redistest.Client, wanted string, allowed ...string) {
	t.Helper()
	for {
		got, err := c.Read()
		if err != nil {
			t.Fatalf("waiting for %q: %v", wanted, err)
		}
		if got == wanted {
			return
		}
		ok := false
		for _, a := range allowed {
			ok = ok || got == a
		}
		if !ok {
			t.Fatalf("got %q, waiting for %q", got, wanted)
		}
	}
}

// TestTrackingConnectionLostWithCommandsInFlight checks that commands in flight when a tracking
// connection is lost make a new one at once. The client is told that nothing is valid, and no
// connection stays pinned.
func TestTrackingConnectionLostWithCommandsInFlight(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	for range 10 {
		c := l.Dial(t)
		c.Reply(t, "HELLO", "3")
		c.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON")
		c.Want(t, "_\r\n", "GET", "cached")
		sent := make(chan error, 1)
		go func() {
			var err error
			for range 200 {
				if err = c.Send(strings.Repeat(redistest.Command("STRLEN", "other"), 20)); err != nil {
					break
				}
			}
			sent <- err
		}()
		for range 50 {
			if _, err := c.Read(); err != nil {
				t.Fatal(err)
			}
		}
		if err := redis.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME",
			"yes").Err(); err != nil {
			t.Fatal(err)
		}
		readUntil(t, c, invalidateAll, ":0\r\n", "-"+call.ErrorLost+"\r\n")
		go func() { // the rest
			for {
				if _, err := c.Read(); err != nil {
					return
				}
			}
		}()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}

// TestTrackingAndTransactions checks that tracking and transactions work together. No stale value
// stays cached, and every transaction that Redis would run succeeds.
func TestTrackingAndTransactions(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	w := l.Dial(t)
	for _, steps := range []string{
		"WATCH x|CLIENT TRACKING ON|MULTI|GET k|EXEC",
		"MULTI|CLIENT TRACKING ON|EXEC|GET k",
		"CLIENT TRACKING ON|MULTI|GET k|EXEC",
		"CLIENT TRACKING ON|MULTI|CLIENT ID|GET k|EXEC",
		"CLIENT TRACKING ON|XREAD BLOCK 1 STREAMS k 0",
	} {
		w.Want(t, "+OK\r\n", "CLIENT", "SETNAME", "writer")
		w.Reply(t, "DEL", "k")
		c := l.Dial(t)
		c.Reply(t, "HELLO", "3")
		for _, step := range strings.Split(steps, "|") {
			if got := c.Reply(t, strings.Fields(step)...); got == invalidateAll {
				proxytest.WantRead(t, c, "_\r\n") // which was pushed before the reply to GET
			}
		}
		w.Reply(t, "XADD", "k", "*", "f", "v")
		if got, err := c.Read(); got != invalidation("k") && got != invalidateAll {
			t.Fatalf("%s: %q %v", steps, got, err)
		}
		c.Close()
	}
	c := l.Dial(t)
	c.Reply(t, "HELLO", "3")
	c.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON")
	c.Want(t, "+OK\r\n", "WATCH", "x")
	c.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "OFF")
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "INCR", "n")
	c.Want(t, "*1\r\n:1\r\n", "EXEC")
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}

// TestOptInCachingWhileSlotMigrates checks that a key of a migrating slot is read without CLIENT
// CACHING, which cannot be sent with ASKING. The client is told not to cache the value.
func TestOptInCachingWhileSlotMigrates(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	c := proxytest.Start(t, cluster.Addrs()).Dial(t)
	key := redistest.KeyIn(9, "k")
	c.Want(t, "+OK\r\n", "SET", key, "1")
	m, err := cluster.BeginMove(9, otherMaster(cluster, 9))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.MoveKey(key); err != nil {
		t.Fatal(err)
	}
	c.Reply(t, "HELLO", "3")
	c.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON", "OPTIN")
	c.Want(t, "+OK\r\n", "CLIENT", "CACHING", "YES")
	c.Want(t, "$1\r\n1\r\n", "GET", key)
	proxytest.WantRead(t, c, invalidateAll)
}

// TestIdleTrackingClientIsToldOfMovedSlot checks that an idle client is told when a slot moves,
// although it sends no command that would get MOVED.
func TestIdleTrackingClientIsToldOfMovedSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, cluster.Addrs())
	c, w := l.Dial(t), l.Dial(t)
	key := redistest.KeyIn(9, "k")
	c.Reply(t, "HELLO", "3")
	c.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON")
	c.Want(t, "_\r\n", "GET", key)
	if err := cluster.MoveSlot(9, otherMaster(cluster, 9)); err != nil {
		t.Fatal(err)
	}
	w.Want(t, "+OK\r\n", "SET", key, "1")
	proxytest.WantRead(t, c, invalidateAll)
}

func otherMaster(c *redistest.Cluster, slot int) *redistest.Node {
	for _, n := range c.Masters() {
		if n != c.MasterOf(slot) {
			return n
		}
	}
	return nil
}
