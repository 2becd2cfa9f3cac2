package locktest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// NewKeys returns n keys that no other test uses, sorted. On a cluster they are in different slots.
func NewKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = NewKey()
	}
	slices.Sort(keys)
	return keys
}

// Several returns the arguments of a command with several keys.
func Several(command string, keys []string, options ...string) []string {
	return append(append([]string{command, strconv.Itoa(len(keys))}, keys...), options...)
}

// TokensOf reads the reply of a MACQUIRE. Nil becomes 0.
func TokensOf(t testing.TB, reply string, n int) []int64 {
	t.Helper()
	lines := strings.Split(reply, "\r\n")
	if lines[0] != "*"+strconv.Itoa(n) || len(lines) != n+1 {
		t.Fatalf("got reply %q, want %d tokens", reply, n)
	}
	tokens := make([]int64, n)
	for i, line := range lines[1:] {
		if line != "$-1" {
			tokens[i] = TokenOf(t, line)
		}
	}
	return tokens
}

// Null is the reply of a MACQUIRE that is granted nothing.
const Null = "*-1"

// NumberOf reads a reply that must be a number.
func NumberOf(t testing.TB, reply string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
	if err != nil {
		t.Fatalf("got reply %q, want a number", reply)
	}
	return n
}
