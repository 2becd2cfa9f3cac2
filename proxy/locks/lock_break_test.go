package locks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestBreakEndsManyReaders: LOCK.BREAK of a lock that one connection holds 500 times with READ
// does not read the whole lock again for each hold, on the connection's Leash and on another one.
func TestBreakEndsManyReaders(t *testing.T) {
	t.Parallel()
	const readers = 500
	server := redistest.Start(t)
	patient := func(o *proxytest.Options) { o.Locks.UpstreamTimeout = time.Minute } // for a busy machine
	near, far := proxytest.Start(t, []string{server.Addr}, patient), proxytest.Start(t, []string{server.Addr}, patient)
	direct := proxytest.Dial(t, server.Addr)
	for _, c := range []struct {
		key, onLoss string
		breaker     *proxytest.Leash
	}{
		{"closed-near", "CLOSE", near},
		{"closed-far", "CLOSE", far},
		{"kept-near", "ERROR", near},
		{"kept-far", "ERROR", far},
	} {
		holder := near.Dial(t)
		acquire := redistest.Command("LOCK.ACQUIRE", c.key, "READ", "ONLOSS", c.onLoss)
		if err := holder.Send(strings.Repeat(acquire, readers)); err != nil {
			t.Fatal(err)
		}
		for range readers {
			if reply, err := holder.Read(); err != nil || reply[0] != ':' {
				t.Fatalf("got %q, %v; want a token", reply, err)
			}
		}
		direct.Want(t, "+OK\r\n", "CONFIG", "RESETSTAT")
		breaker := c.breaker.Dial(t)
		breaker.Timeout = time.Minute
		breakLock(t, breaker, c.key)
		if n := callsOf(t, direct, "hgetall"); n > readers/2 {
			t.Errorf("%s: Redis ran HGETALL %d times for %d holds", c.key, n, readers)
		}
		direct.Want(t, ":0\r\n", "EXISTS", c.key)
	}
}

// callsOf returns how often a server has executed a command since its statistics were reset.
func callsOf(t *testing.T, c *redistest.Client, command string) (n int) {
	t.Helper()
	_, stats, _ := strings.Cut(c.Reply(t, "INFO", "commandstats"), "cmdstat_"+command+":calls=")
	_, _ = fmt.Sscan(stats, &n) // a command that never ran is not listed
	return n
}

// breakLock breaks a lock. The reply is 2 when a busy machine takes over a second to confirm that
// the holder was told.
func breakLock(t *testing.T, c *redistest.Client, key string) {
	t.Helper()
	if got := c.Reply(t, "LOCK.BREAK", key); got != ":1\r\n" && got != ":2\r\n" {
		t.Errorf("LOCK.BREAK %s: got %q", key, got)
	}
}
