package transaction_test

import (
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestTransactionFollowsItsSlot checks that a client does not notice a slot that moves between any
// two commands of a transaction. With a watched key, EXEC fails as if the key had changed.
func TestTransactionFollowsItsSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, cluster.Addrs())
	c := l.Dial(t)
	slot := 0
	move := func() {
		t.Helper()
		from := cluster.MasterOf(slot)
		for _, n := range cluster.Masters() {
			if n != from {
				if err := cluster.MoveSlot(slot, n); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	}
	for gap := range 5 {
		for _, watched := range []bool{false, true} {
			slot++
			key := redistest.KeyIn(slot, "k")
			c.Want(t, "+OK\r\n", "SET", key, "1")
			executed := "*2\r\n:2\r\n:3\r\n"
			if watched {
				c.Want(t, "+OK\r\n", "WATCH", key)
				executed = "*-1\r\n"
			}
			for i, step := range [][]string{
				{"+OK\r\n", "MULTI"}, {"+QUEUED\r\n", "INCR", key}, {"+QUEUED\r\n", "INCR", key}, {executed, "EXEC"},
			} {
				if gap == i {
					move()
				}
				if gap == 4 && i == 0 && watched { // away and back: the key was gone for a moment
					move()
					move()
				}
				if gap == 4 && !watched {
					executed = "*2\r\n:2\r\n:3\r\n"
				}
				c.Want(t, step[0], step[1:]...)
			}
		}
	}
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}

// TestTransactionWhileSlotMigrates checks that a transaction waits for the keys of a migrating
// slot. After a time-out it gets Redis's error, and nothing runs.
func TestTransactionWhileSlotMigrates(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, cluster.Addrs(), func(o *proxytest.Options) {
		o.Upstream.RedirectTimeout = 4 * time.Second
	})
	c := l.Dial(t)
	key := redistest.KeyIn(5, "k")
	c.Want(t, "+OK\r\n", "SET", key, "1")
	from := cluster.MasterOf(5)
	var to *redistest.Node
	for _, n := range cluster.Masters() {
		if n != from {
			to = n
		}
	}
	m, err := cluster.BeginMove(5, to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.MoveKeys(-1); err != nil {
		t.Fatal(err)
	}
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n", "INCR", key)
	c.Want(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	c.Want(t, "$1\r\n1\r\n", "GET", key)

	c.Want(t, "+OK\r\n", "MULTI")
	if err := c.Send(redistest.Command("INCR", key) + redistest.Command("EXEC")); err != nil {
		t.Fatal(err)
	}
	if err := m.Finish(); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"+QUEUED\r\n", "*1\r\n:2\r\n"} {
		if got, err := c.Read(); err != nil || got != w {
			t.Fatalf("%q %v, want %q", got, err, w)
		}
	}
}

// TestTransactionOfClosedClient checks that a transaction whose client closes does not run,
// and that its connection is released.
func TestTransactionOfClosedClient(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		for _, begun := range []string{"WATCH k", "MULTI", "MULTI|SET k 1", "WATCH k|MULTI|SET k 1"} {
			c := l.Dial(t)
			for _, cmd := range strings.Split(begun, "|") {
				c.Reply(t, strings.Fields(cmd)...)
			}
			c.Close()
		}
		proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
		l.Dial(t).Want(t, ":0\r\n", "EXISTS", "k")
	})
}

// TestDiscardedTransactionWaitsForNothing checks that EXEC does not wait for a dead Redis when the
// transaction is discarded already.
func TestDiscardedTransactionWaitsForNothing(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		o.Upstream.RedirectTimeout = time.Minute
	})
	c := l.Dial(t)
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "INCR", "k")
	c.Want(t, "-ERR 'LOCK.ACQUIRE' is not allowed inside MULTI: a lock is not part of a transaction\r\n",
		"LOCK.ACQUIRE", "k")
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.Want(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("EXEC took %v", took)
	}
}

// TestTransactionOnALostConnection checks that a transaction on a lost connection does not run if
// it was not sent. With watched keys, EXEC returns nil.
func TestTransactionOnALostConnection(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	kill := func() {
		t.Helper()
		if err := redis.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME",
			"yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
	// Leash has seen the end of the transaction's connection
	awaitEnd := func() {
		t.Helper()
		proxytest.Eventually(t, "no pinned link is connected", func() bool { return l.Upstream.Nodes.Stats().PinnedLinks == 0 })
	}
	c := l.Dial(t)
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "INCR", "k")
	kill()
	c.Want(t, "+QUEUED\r\n", "INCR", "k")
	c.Want(t, "*2\r\n:1\r\n:2\r\n", "EXEC")
	c.Want(t, "+OK\r\n", "WATCH", "k")
	kill()
	awaitEnd()
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "INCR", "k")
	c.Want(t, "*-1\r\n", "EXEC")
	c.Want(t, "$1\r\n2\r\n", "GET", "k")
	c.Want(t, "+OK\r\n", "WATCH", "k")
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+QUEUED\r\n", "INCR", "k")
	if err := redis.Kill(); err != nil { // with nothing to ask, the answer is the same
		t.Fatal(err)
	}
	awaitEnd()
	proxytest.Eventually(t, "the node is down", func() bool { return !l.Upstream.Usable() })
	c.Want(t, "*-1\r\n", "EXEC")
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}

// TestLargeTransaction checks that a pipeline of thousands of commands in a transaction works, and
// so does a reply of many megabytes.
func TestLargeTransaction(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, nodes []*redistest.Server) {
		c := l.Dial(t)
		value := strings.Repeat("v", 100_000)
		c.Want(t, "+OK\r\n", "SET", "big", value)
		const n = 5000
		var raw strings.Builder
		raw.WriteString(redistest.Command("MULTI"))
		for i := range n {
			if i%50 == 0 {
				raw.WriteString(redistest.Command("GET", "big"))
			} else {
				raw.WriteString(redistest.Command("INCR", "{big}n"))
			}
		}
		raw.WriteString(redistest.Command("EXEC"))
		sent := make(chan error, 1)
		go func() { sent <- c.Send(raw.String()) }()
		for i := range n + 1 {
			w := "+QUEUED\r\n"
			if i == 0 {
				w = "+OK\r\n"
			}
			if got, err := c.Read(); err != nil || got != w {
				t.Fatalf("%d: %q %v", i, got, err)
			}
		}
		got, err := c.Read()
		if err != nil || !strings.HasPrefix(got, "*5000\r\n$100000\r\nvvv") || len(got) < 100*100_000 {
			t.Fatalf("%.50q %d %v", got, len(got), err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		c.Want(t, "+PONG\r\n", "PING")
	})
}

// TestMultiWithoutRedis checks that MULTI begins a transaction also while Redis cannot be reached.
// So the client knows that its next commands are queued, and a pipeline never runs without its
// transaction.
func TestMultiWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) {
		o.Upstream.RedirectTimeout = 50 * time.Millisecond
	})
	c := l.Dial(t)
	down := func() {
		t.Helper()
		if err := redis.Kill(); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "the node is down", func() bool { return !l.Upstream.Usable() })
	}
	up := func() {
		t.Helper()
		if err := redis.Restart(); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "the node is up", func() bool { return l.Dial(t).Reply(t, "GET", "k")[0] == '$' })
	}
	const (
		unreachable = "-UPSTREAMDOWN Redis cannot be reached, the command was not executed\r\n"
		aborted     = "-EXECABORT Transaction discarded because of previous errors.\r\n"
	)

	down()
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "+OK\r\n", "DISCARD")
	c.Want(t, unreachable, "GET", "k")
	proxytest.Send(t, c, redistest.Command("MULTI")+redistest.Command("SET", "k", "1")+redistest.Command("EXEC"))
	for _, w := range []string{"+OK\r\n", unreachable, aborted} {
		proxytest.WantRead(t, c, w)
	}
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, aborted, "EXEC")

	c.Want(t, "+OK\r\n", "MULTI")
	up()
	c.Want(t, "+QUEUED\r\n", "SET", "k", "2")
	c.Want(t, "*1\r\n+OK\r\n", "EXEC")

	down()
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, unreachable, "SET", "k", "3")
	up()
	c.Want(t, "+QUEUED\r\n", "SET", "k", "4")
	c.Want(t, aborted, "EXEC")
	c.Want(t, "$-1\r\n", "GET", "k")
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}
