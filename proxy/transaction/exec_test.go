package transaction_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/call"
	"leash/proxy/merge"
)

const msgExecAbort = "EXECABORT Transaction discarded because of previous errors."

// TestExecIsNotRepeated checks that a transaction that was sent and lost its reply is not repeated.
// The client is told that the outcome is unknown.
func TestExecIsNotRepeated(t *testing.T) {
	redis := redistest.Start(t)
	p, err := faultproxy.New(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c := proxytest.Start(t, []string{p.Addr()}).Dial(t)
	p.HoldAfter(faultproxy.Named("MULTI"))
	if err := c.Send(redistest.Command("MULTI") + redistest.Command("INCR", "k") +
		redistest.Command("EXEC")); err != nil {
		t.Fatal(err)
	}
	value := func() string { return redis.Client().Get(t.Context(), "k").Val() }
	proxytest.Eventually(t, "executed", func() bool { return value() == "1" })
	p.Cut(faultproxy.RST)
	for range 3 {
		proxytest.WantRead(t, c, "-"+call.ErrorLost+"\r\n")
	}
	c.Want(t, "$1\r\n1\r\n", "GET", "k")
}

// TestTransactionsWhileConnectionsDie checks that each confirmed transaction ran once while
// connections to Redis are cut. Only transactions with an unknown outcome may have run besides.
func TestTransactionsWhileConnectionsDie(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	var sure, unsure atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(3 * time.Second)
	for i := range 6 {
		c := l.Dial(t)
		wg.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				raw := redistest.Command("ECHO", "x")
				if n%4 == 0 {
					raw = redistest.Command("WATCH", fmt.Sprint("w", i))
				}
				if err := c.Send(raw + redistest.Command("MULTI") + redistest.Command("INCR", "n") +
					redistest.Command("EXEC")); err != nil {
					t.Error(err)
					return
				}
				var last string
				for range 4 {
					var err error
					if last, err = c.Read(); err != nil {
						t.Error(err)
						return
					}
				}
				switch {
				case strings.HasPrefix(last, "*1\r\n:"):
					sure.Add(1)
				case strings.HasPrefix(last, "-UPSTREAMLOST"):
					unsure.Add(1)
				case last == "*-1\r\n", strings.HasPrefix(last, "-EXECABORT"), strings.HasPrefix(last, "-UPSTREAMDOWN"):
				default:
					t.Errorf("EXEC: %q", last)
					return
				}
			}
		})
	}
	for time.Now().Before(end) {
		time.Sleep(20 * time.Millisecond) // between cuts, not for an event
		_ = redis.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
	}
	wg.Wait()
	n, err := redis.Client().Get(t.Context(), "n").Int64()
	if err != nil || n < sure.Load() || n > sure.Load()+unsure.Load() || sure.Load() == 0 {
		t.Errorf("ran %d times, confirmed %d, unknown %d (%v)", n, sure.Load(), unsure.Load(), err)
	}
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}

// TestTransactionTooLargeToRepeat checks that no command of a large transaction runs when its
// connection is lost, and that the session goes on.
func TestTransactionTooLargeToRepeat(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	c := l.Dial(t)
	c.Want(t, "+OK\r\n", "MULTI")
	for range 9 {
		c.Want(t, "+QUEUED\r\n", "SET", "big", strings.Repeat("v", 8<<20))
	}
	if err := redis.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "the loss is noticed", func() bool {
		list, err := redis.Client().ClientList(t.Context()).Result()
		return err == nil && !strings.Contains(list, "multi=9")
	})
	if got := c.Reply(t, "SET", "small", "v"); got != "+QUEUED\r\n" && got != "-"+merge.NotSent+"\r\n" {
		t.Fatalf("%q", got)
	}
	if got := c.Reply(t, "EXEC"); got != "-"+msgExecAbort+"\r\n" && got != "-"+call.ErrorLost+"\r\n" {
		t.Fatalf("EXEC: %q", got)
	}
	c.Want(t, ":0\r\n", "EXISTS", "big", "small")
	proxytest.Eventually(t, "no connection pinned", func() bool { return l.Upstream.Nodes.Pinned() == 0 })
}

// TestCountsInsideTransactions checks that PUBLISH and PUBSUB inside a transaction count Leash's
// clients.
func TestCountsInsideTransactions(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, _ []*redistest.Server) {
		for range 3 {
			s := l.Dial(t)
			s.Reply(t, "SUBSCRIBE", "news")
		}
		c := l.Dial(t)
		c.Want(t, "+OK\r\n", "MULTI")
		c.Want(t, "+QUEUED\r\n", "PUBLISH", "news", "m")
		c.Want(t, "+QUEUED\r\n", "PUBSUB", "NUMSUB", "news")
		c.Want(t, "*2\r\n:3\r\n*2\r\n$4\r\nnews\r\n:3\r\n", "EXEC")
		c.Want(t, "+OK\r\n", "MULTI")
		c.Want(t, "+QUEUED\r\n", "SPUBLISH", "shard", "m")
		c.Want(t, "*1\r\n:0\r\n", "EXEC")
	})
}
