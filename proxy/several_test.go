package proxy

import (
	"regexp"
	"strings"
	"testing"

	"leash/internal/redistest"
)

// TestSeveralLocks checks that LOCK.MACQUIRE and LOCK.MRELEASE work on a cluster, in both
// protocols.
func TestSeveralLocks(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	l := startLeash(t, cluster.Addrs())
	one, other := l.dial(t), l.dial(t)
	keys := []string{redistest.KeyIn(16000, "c"), redistest.KeyIn(0, "a"), redistest.KeyIn(8000, "b")}
	args := func(command string, options ...string) []string {
		return append(append([]string{command, "3"}, keys...), options...)
	}
	do(t, other, "HELLO", "3")
	all := regexp.MustCompile(`^\*3\r\n:\d+\r\n:\d+\r\n:\d+\r\n$`)
	if got := do(t, one, args("LOCK.MACQUIRE")...); !all.MatchString(got) {
		t.Fatalf("got %q, want three tokens", got)
	}
	want(t, other, "_\r\n", args("LOCK.MACQUIRE")...)
	want(t, one, ":1\r\n", "LOCK.RELEASE", keys[0])
	want(t, one, ":1\r\n", "LOCK.RELEASE", keys[2])
	most := regexp.MustCompile(`^\*3\r\n:\d+\r\n_\r\n:\d+\r\n$`)
	if got := do(t, other, args("LOCK.MACQUIRE", "QUORUM", "2")...); !most.MatchString(got) {
		t.Fatalf("got %q, want two tokens of three", got)
	}
	want(t, other, ":2\r\n", args("LOCK.MRELEASE")...)

	// A client that closes while it waits leaves nothing behind, whatever it had taken already.
	if err := other.Send(redistest.Command(args("LOCK.MACQUIRE", "BLOCK", "0")...)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits", func() bool { return l.locks.Stats().Waiters == 1 })
	other.Close()
	eventually(t, "the client is gone", func() bool { s := l.locks.Stats(); return s.Waiters == 0 && s.Holds == 1 })
	want(t, one, ":1\r\n", "LOCK.RELEASE", keys[1])
	if got := do(t, one, args("LOCK.MACQUIRE")...); !all.MatchString(got) {
		t.Fatalf("got %q, want three tokens", got)
	}

	// Below the quorum, the connection is closed and the other locks are free.
	third := l.dial(t)
	want(t, one, ":3\r\n", args("LOCK.MRELEASE")...)
	if got := do(t, third, args("LOCK.MACQUIRE", "QUORUM", "2", "TTL", "3000")...); !all.MatchString(got) {
		t.Fatalf("got %q, want three tokens", got)
	}
	want(t, one, ":1\r\n", "DEL", keys[0])
	eventually(t, "the loss is noticed", func() bool { return l.locks.Stats().Holds == 2 })
	if got := do(t, third, "LOCK.TTL", keys[1]); strings.HasPrefix(got, ":-") {
		t.Errorf("LOCK.TTL: %q", got)
	}
	want(t, one, ":1\r\n", "DEL", keys[1])
	if err := third.AwaitEnd(); err != nil {
		t.Error(err)
	}
	eventually(t, "the rest is free", func() bool { return do(t, one, "EXISTS", keys[2]) == ":0\r\n" })
}
