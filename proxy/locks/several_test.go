package locks_test

import (
	"regexp"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestSeveralLocks checks that LOCK.MACQUIRE and LOCK.MRELEASE work on a cluster, in both
// protocols.
func TestSeveralLocks(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	l := proxytest.Start(t, cluster.Addrs())
	one, other := l.Dial(t), l.Dial(t)
	keys := []string{redistest.KeyIn(16000, "c"), redistest.KeyIn(0, "a"), redistest.KeyIn(8000, "b")}
	args := func(command string, options ...string) []string {
		return append(append([]string{command, "3"}, keys...), options...)
	}
	other.Reply(t, "HELLO", "3")
	all := regexp.MustCompile(`^\*3\r\n:\d+\r\n:\d+\r\n:\d+\r\n$`)
	if got := one.Reply(t, args("LOCK.MACQUIRE")...); !all.MatchString(got) {
		t.Fatalf("got %q, want three tokens", got)
	}
	other.Want(t, "_\r\n", args("LOCK.MACQUIRE")...)
	one.Want(t, ":1\r\n", "LOCK.RELEASE", keys[0])
	one.Want(t, ":1\r\n", "LOCK.RELEASE", keys[2])
	most := regexp.MustCompile(`^\*3\r\n:\d+\r\n_\r\n:\d+\r\n$`)
	if got := other.Reply(t, args("LOCK.MACQUIRE", "QUORUM", "2")...); !most.MatchString(got) {
		t.Fatalf("got %q, want two tokens of three", got)
	}
	other.Want(t, ":2\r\n", args("LOCK.MRELEASE")...)

	// A client that closes while it waits leaves nothing behind, whatever it had taken already.
	if err := other.Send(redistest.Command(args("LOCK.MACQUIRE", "BLOCK", "0")...)); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it waits", func() bool { return l.Locks.Stats().Waiters == 1 })
	other.Close()
	proxytest.Eventually(t, "the client is gone", func() bool { s := l.Locks.Stats(); return s.Waiters == 0 && s.Holds == 1 })
	one.Want(t, ":1\r\n", "LOCK.RELEASE", keys[1])
	if got := one.Reply(t, args("LOCK.MACQUIRE")...); !all.MatchString(got) {
		t.Fatalf("got %q, want three tokens", got)
	}

	// Below the quorum, the connection is closed and the other locks are free.
	third := l.Dial(t)
	one.Want(t, ":3\r\n", args("LOCK.MRELEASE")...)
	if got := third.Reply(t, args("LOCK.MACQUIRE", "QUORUM", "2", "TTL", "3000")...); !all.MatchString(got) {
		t.Fatalf("got %q, want three tokens", got)
	}
	one.Want(t, ":1\r\n", "DEL", keys[0])
	proxytest.Eventually(t, "the loss is noticed", func() bool { return l.Locks.Stats().Holds == 2 })
	if got := third.Reply(t, "LOCK.TTL", keys[1]); strings.HasPrefix(got, ":-") {
		t.Errorf("LOCK.TTL: %q", got)
	}
	one.Want(t, ":1\r\n", "DEL", keys[1])
	if err := third.AwaitEnd(); err != nil {
		t.Error(err)
	}
	proxytest.Eventually(t, "the rest is free", func() bool { return one.Reply(t, "EXISTS", keys[2]) == ":0\r\n" })
}
