package proxytest

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// Token takes a lock and returns the token's digits.
func Token(t testing.TB, c *redistest.Client, args ...string) string {
	t.Helper()
	reply := c.Reply(t, append([]string{"LOCK.ACQUIRE"}, args...)...)
	if reply[0] != ':' {
		t.Fatalf("LOCK.ACQUIRE %q: %q", args, reply)
	}
	return strings.TrimSpace(reply[1:])
}

// Number parses a decimal number.
func Number(t testing.TB, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// KillHolder lets waiter wait for the lock k and kills the process that holds it. It checks that
// waiter gets the lock long before it would expire, and releases it.
func KillHolder(t testing.TB, l *Leash, holder *os.Process, waiter *redistest.Client) {
	t.Helper()
	Send(t, waiter, redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "15000"))
	Eventually(t, "a client waits", func() bool { return l.Locks.Stats().Waiters == 1 })
	start := time.Now()
	if err := holder.Kill(); err != nil {
		t.Fatal(err)
	}
	if got, err := waiter.Read(); err != nil || got[0] != ':' {
		t.Fatalf("got %q %v", got, err)
	}
	d := time.Since(start)
	t.Logf("granted %v after kill -9", d)
	if d > 5*time.Second {
		t.Errorf("granted only %v after the kill", d)
	}
	waiter.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
}
