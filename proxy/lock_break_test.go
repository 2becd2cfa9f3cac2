package proxy

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestBreakEndsManyReaders: LOCK.BREAK of a lock that one connection holds 3,000 times with READ
// answers within 8 s, on the connection's Leash and on another one.
func TestBreakEndsManyReaders(t *testing.T) {
	t.Parallel()
	const readers, most = 3000, 8 * time.Second
	server := redistest.Start(t)
	near, far := startLeash(t, []string{server.Addr}), startLeash(t, []string{server.Addr})
	direct := dialAddr(t, server.Addr)
	for _, c := range []struct {
		key, onLoss string
		breaker     *leash
	}{
		{"closed-near", "CLOSE", near},
		{"closed-far", "CLOSE", far},
		{"kept-near", "ERROR", near},
		{"kept-far", "ERROR", far},
	} {
		holder := near.dial(t)
		acquire := redistest.Command("LOCK.ACQUIRE", c.key, "READ", "ONLOSS", c.onLoss)
		if err := holder.Send(strings.Repeat(acquire, readers)); err != nil {
			t.Fatal(err)
		}
		for range readers {
			if reply, err := holder.Read(); err != nil || reply[0] != ':' {
				t.Fatalf("got %q, %v; want a token", reply, err)
			}
		}
		began := time.Now()
		if got := do(t, c.breaker.dial(t), "LOCK.BREAK", c.key); got != ":1\r\n" && got != ":2\r\n" {
			t.Errorf("%s: got %q", c.key, got)
		}
		if d := time.Since(began); d > most {
			t.Errorf("%s: LOCK.BREAK took %v, more than %v", c.key, d, most)
		}
		want(t, direct, ":0\r\n", "EXISTS", c.key)
	}
}
