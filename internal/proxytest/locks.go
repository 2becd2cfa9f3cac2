package proxytest

import (
	"strconv"
	"strings"
	"testing"

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
