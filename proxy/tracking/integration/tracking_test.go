package tracking_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/tracking"
)

const (
	invalidateAll = tracking.InvalidateAll
	// the beginning of an invalidation for a subscriber in RESP2
	invalidateMessage = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
)

func invalidation(key string) string {
	return fmt.Sprintf(">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%s\r\n", len(key), key)
}

// TestTrackingOptionsAsRedis compares replies about tracking options, CLIENT CACHING and
// TRACKINGINFO with Redis.
func TestTrackingOptionsAsRedis(t *testing.T) {
	t.Parallel()
	texts := []string{
		"CLIENT TRACKING FOO\nCLIENT TRACKING\nCLIENT TRACKING ON OPTIN OPTOUT\nCLIENT CACHING YES\nCLIENT TRACKING ON\nCLIENT TRACKING ON BCAST\nCLIENT TRACKINGINFO\nCLIENT GETREDIR\nCLIENT TRACKING OFF\nCLIENT GETREDIR",
		"CLIENT TRACKING ON PREFIX a\nCLIENT TRACKING ON BCAST PREFIX a PREFIX ab\nCLIENT TRACKING ON BCAST PREFIX a\nCLIENT TRACKING ON BCAST PREFIX b\nCLIENT TRACKINGINFO\nCLIENT TRACKING OFF\nCLIENT TRACKINGINFO",
		"CLIENT TRACKING ON OPTIN\nCLIENT CACHING NO\nCLIENT CACHING FOO\nCLIENT CACHING\nCLIENT TRACKING ON OPTOUT\nCLIENT TRACKINGINFO\nRESET\nCLIENT CACHING YES",
		"CLIENT TRACKING ON NOLOOP\nCLIENT TRACKINGINFO\nCLIENT TRACKING OFF NOLOOP\nCLIENT TRACKING OFF",
	}
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, _ []*redistest.Server) {
		plain := redistest.Start(t)
		for i, text := range texts {
			for _, proto := range []string{"2", "3"} {
				redis, got := proxytest.RunTranscript(t, plain.Addr, proto, text, false),
					proxytest.RunTranscript(t, l.Addr, proto, text, false)
				if got != redis {
					t.Errorf("%d RESP%s\nleash: %q\nredis: %q", i, proto, got, redis)
				}
			}
		}
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	})
}

// TestInvalidations checks that invalidations arrive for keys of every node, for writes of other
// sessions and of the session itself without NOLOOP, for prefixes, and with OPTIN and OPTOUT.
func TestInvalidations(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, _ []*redistest.Server) {
		writer := l.Dial(t)
		keys := []string{redistest.KeyIn(1, "k"), redistest.KeyIn(7000, "k"), redistest.KeyIn(16000, "k")}
		for _, key := range keys {
			c := l.Dial(t)
			c.Reply(t, "HELLO", "3")
			c.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON")
			c.Want(t, "_\r\n", "GET", key)
			writer.Want(t, "+OK\r\n", "SET", key, "1")
			proxytest.WantRead(t, c, invalidation(key))
			c.Want(t, "$1\r\n1\r\n", "GET", key)
			c.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "OFF")
			writer.Want(t, "+OK\r\n", "SET", key, "2")
			c.Want(t, "$1\r\n2\r\n", "GET", key)
		}
		b := l.Dial(t)
		b.Reply(t, "HELLO", "3")
		b.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "k")
		for _, key := range keys {
			writer.Want(t, "+OK\r\n", "SET", key, "3")
			proxytest.WantRead(t, b, invalidation(key))
		}
		writer.Want(t, "+OK\r\n", "SET", "other", "3")
		b.Want(t, "+PONG\r\n", "PING")

		o := l.Dial(t)
		o.Reply(t, "HELLO", "3")
		o.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP")
		for i, key := range keys {
			o.Want(t, "$1\r\n3\r\n", "GET", key)
			if i > 0 {
				o.Want(t, "+OK\r\n", "CLIENT", "CACHING", "YES")
				o.Want(t, "$1\r\n3\r\n", "GET", key)
			}
		}
		o.Want(t, "+OK\r\n", "SET", keys[1], "4") // its own
		writer.Want(t, "+OK\r\n", "SET", keys[0], "4")
		writer.Want(t, "+OK\r\n", "SET", keys[2], "4")
		proxytest.WantRead(t, o, invalidation(keys[2]))
		o.Want(t, "+OK\r\n", "CLIENT", "CACHING", "YES")
		o.Want(t, "+OK\r\n", "MULTI")
		o.Want(t, "+QUEUED\r\n", "GET", keys[0])
		o.Want(t, "*1\r\n$1\r\n4\r\n", "EXEC")
		writer.Want(t, "+OK\r\n", "SET", keys[0], "5")
		proxytest.WantRead(t, o, invalidation(keys[0]))
		for _, c := range []*redistest.Client{b, o} {
			c.Close()
		}
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
	})
}

// TestInvalidationDoesNotOvertakeItsReply checks that an invalidation does not come before the
// reply that it is about. That reply waits in Leash for an earlier one of another node while the
// key is written. A client that got them in the wrong order would keep the old value for ever.
func TestInvalidationDoesNotOvertakeItsReply(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{FaultProxy: true})
	l := proxytest.Start(t, cluster.Addrs())
	slow, fast := redistest.KeyIn(1, "slow"), redistest.KeyIn(16000, "fast")
	writer, c := l.Dial(t), l.Dial(t)
	writer.Want(t, "+OK\r\n", "SET", fast, "old")
	writer.Want(t, "+OK\r\n", "SET", slow, "s")
	c.Reply(t, "HELLO", "3")
	c.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON")
	hold := cluster.MasterOf(1).Proxy.HoldAfter(faultproxy.Holding("STRLEN", slow))
	if err := c.Send(redistest.Command("STRLEN", slow) + redistest.Command("GET", fast)); err != nil {
		t.Fatal(err)
	}
	if err := hold.Await(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "the fast node has been read", func() bool {
		stats, err := cluster.MasterOf(16000).Client().Info(t.Context(), "stats").Result()
		return err == nil && proxytest.InfoNumber(stats, "tracking_total_keys") == 1
	})
	writer.Want(t, "+OK\r\n", "SET", fast, "new")
	writer.Want(t, "$3\r\nnew\r\n", "GET", fast) // the invalidation has left Redis before
	hold.Release()
	proxytest.WantRead(t, c, ":1\r\n")
	proxytest.WantRead(t, c, "$3\r\nold\r\n")
	proxytest.WantRead(t, c, invalidation(fast))
	c.Want(t, "$3\r\nnew\r\n", "GET", fast)
}

// TestPingComesBehindInvalidations checks that invalidations for all earlier writes come before
// PONG, even if Redis is far away, and before every other reply that Leash makes.
func TestPingComesBehindInvalidations(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{FaultProxy: true})
	l := proxytest.Start(t, cluster.Addrs())
	for _, barrier := range [][]string{{"PING"}, {"ECHO", "x"}, {"CLIENT", "GETNAME"}, {"DBSIZE"}, {"TIME"},
		{"CONFIG", "GET", "maxclients"}} {
		writer, c := l.Dial(t), l.Dial(t)
		c.Reply(t, "HELLO", "3")
		c.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON")
		for _, slot := range []int{1, 16000} {
			key := redistest.KeyIn(slot, barrier[0])
			node := cluster.MasterOf(slot)
			c.Want(t, "_\r\n", "GET", key)
			node.Proxy.Delay(50 * time.Millisecond)
			direct := redistest.Connect(t, node.Server.Addr)
			direct.Want("+OK\r\n", "SET", key, "new")
			if err := c.Send(redistest.Command(barrier...)); err != nil {
				t.Fatal(err)
			}
			if got, err := c.Read(); err != nil || got != invalidation(key) {
				t.Errorf("%q: first came %q, %v", barrier, got, err)
			} else if _, err := c.Read(); err != nil {
				t.Error(err)
			}
			node.Proxy.Delay(0)
		}
		writer.Close()
	}
}

// TestNothingStaleInTheCache checks that a client that caches by the rules has no stale value at
// the end. It pipelines reads of all nodes beside a writer.
func TestNothingStaleInTheCache(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, _ []*redistest.Server) {
		const keys, rounds = 30, 150
		rng := rand.New(rand.NewPCG(proxytest.Seed(t), 1))
		name := func(i int) string { return fmt.Sprint("key", i) }
		reader, writer := l.Dial(t), l.Dial(t)
		reader.Reply(t, "HELLO", "3")
		reader.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON")
		stop := make(chan struct{})
		written := make(chan error, 1)
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					written <- nil
					return
				default:
				}
				if _, err := writer.Do("SET", name(i*7%keys), fmt.Sprint("v", i)); err != nil {
					written <- err
					return
				}
			}
		}()
		cache := make(map[string]string)
		var asked []string
		take := func() {
			reply, err := reader.Read()
			if err != nil {
				t.Fatal(err)
			}
			if key, ok := strings.CutPrefix(reply, ">2\r\n$10\r\ninvalidate\r\n"); ok {
				if key == "_\r\n" {
					clear(cache)
				} else {
					delete(cache, strings.Split(key, "\r\n")[2])
				}
				return
			}
			cache[asked[0]] = reply
			asked = asked[1:]
		}
		for range rounds {
			var raw strings.Builder
			for range 1 + rng.IntN(8) {
				key := name(rng.IntN(keys))
				raw.WriteString(redistest.Command("GET", key))
				asked = append(asked, key)
			}
			if err := reader.Send(raw.String()); err != nil {
				t.Fatal(err)
			}
			for len(asked) > 0 {
				take()
			}
		}
		close(stop)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		// Invalidations for writes before these replies have come before them.
		for i := range keys {
			want := writer.Reply(t, "GET", name(i))
			held, ok := cache[name(i)]
			asked = append(asked, "end")
			if err := reader.Send(redistest.Command("STRLEN", name(i))); err != nil {
				t.Fatal(err)
			}
			for len(asked) > 0 {
				take()
			}
			if _, still := cache[name(i)]; ok && still && strings.TrimPrefix(held, "_") != strings.TrimPrefix(want,
				"$-1") {
				t.Errorf("%s: cached %q, Redis has %q", name(i), held, want)
			}
		}
	})
}

// TestTrackingConnectionLost checks that the client is told that nothing is valid when a tracking
// connection is lost, and that the session goes on.
func TestTrackingConnectionLost(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		c, writer := l.Dial(t), l.Dial(t)
		c.Reply(t, "HELLO", "3")
		c.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON")
		c.Want(t, "_\r\n", "GET", "k")
		for _, n := range nodes {
			if err := n.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err(); err != nil {
				t.Fatal(err)
			}
		}
		proxytest.WantRead(t, c, invalidateAll)
		if err := c.Send(redistest.Command("GET", "k")); err != nil {
			t.Fatal(err)
		}
		for reply := ""; reply != "_\r\n"; {
			var err error
			if reply, err = c.Read(); err != nil || reply != "_\r\n" && reply != invalidateAll {
				t.Fatalf("%q %v", reply, err)
			}
		}
		writer.Want(t, "+OK\r\n", "SET", "k", "1")
		for {
			reply, err := c.Read()
			if err != nil {
				t.Fatal(err)
			}
			if reply == invalidation("k") {
				break
			}
			if reply != invalidateAll { // of a node that the session had only checked options with
				t.Fatalf("%q", reply)
			}
		}
		c.Want(t, "$1\r\n1\r\n", "GET", "k")
	})
}

// TestTrackingFollowsSlots checks that a cached key is invalidated when its slot moves.
func TestTrackingFollowsSlots(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, cluster.Addrs())
	c, writer := l.Dial(t), l.Dial(t)
	key := redistest.KeyIn(9, "k")
	writer.Want(t, "+OK\r\n", "SET", key, "1")
	c.Reply(t, "HELLO", "3")
	c.Want(t, "+OK\r\n", "CLIENT", "TRACKING", "ON")
	c.Want(t, "$1\r\n1\r\n", "GET", key)
	from := cluster.MasterOf(9)
	for _, n := range cluster.Masters() {
		if n != from {
			if err := cluster.MoveSlot(9, n); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	reply, err := c.Read()
	if err != nil || reply != invalidation(key) && reply != invalidateAll {
		t.Fatalf("%q %v", reply, err)
	}
	if err := c.Send(redistest.Command("GET", key)); err != nil {
		t.Fatal(err)
	}
	for reply != "$1\r\n1\r\n" {
		if reply, err = c.Read(); err != nil {
			t.Fatal(err)
		}
	}
	writer.Want(t, "+OK\r\n", "SET", key, "2")
	for reply != invalidation(key) && reply != invalidateAll {
		if reply, err = c.Read(); err != nil {
			t.Fatal(err)
		}
	}
}
