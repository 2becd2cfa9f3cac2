package locks_test

import (
	"strings"
	"testing"
	"time"

	"leash/internal/limits"
	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/pubsub"
)

// TestHoldsEndByTheirName checks that a lock whose name matches a pattern is lost after the time of
// the pattern, also when it is taken with others, and that no other lock is.
func TestHoldsEndByTheirName(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr}, func(o *proxytest.Options) {
		o.Locks.MaxHoldOf = func(key string) time.Duration {
			if pubsub.Match("order:*", key) {
				return 4 * time.Second
			}
			return 0
		}
	})
	c := l.Dial(t)
	for _, args := range [][]string{
		{"LOCK.ACQUIRE", "order:1", "ONLOSS", "ERROR"},
		{"LOCK.ACQUIRE", "order:2", "MAXHOLD", "60000", "ONLOSS", "ERROR"},
		{"LOCK.ACQUIRE", "other", "ONLOSS", "ERROR"},
	} {
		if got := c.Reply(t, args...); got[0] != ':' {
			t.Fatalf("%q: %q", args, got)
		}
	}
	if got := c.Reply(t, "LOCK.MACQUIRE", "2", "free", "order:3", "ONLOSS", "ERROR"); got[0] == '-' {
		t.Fatalf("got %q", got)
	}
	for _, key := range []string{"order:1", "order:2", "order:3"} {
		proxytest.Eventually(t, key+" is lost", func() bool {
			return strings.HasPrefix(c.Reply(t, "LOCK.TTL", key), "-LOCKLOST "+key+" maxhold")
		})
	}
	if got := c.Reply(t, "LOCK.TTL", "other"); got[0] != ':' || got[1] == '-' {
		t.Errorf("the lock without a pattern: got %q", got)
	}
}

// TestHoldsAreLimitedByTheirNames checks that clients together get no more locks and permits of a
// pattern than permitted, and that the end of a hold makes room.
func TestHoldsAreLimitedByTheirNames(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr}, func(o *proxytest.Options) {
		all, err := limits.ParseNameHolds([]string{"order:*=2"}, pubsub.Match)
		if err != nil {
			t.Fatal(err)
		}
		o.Locks.NameHolds = all
	})
	const refusal = "-LOCKLIMIT this Leash has as many holds as --limit-name-holds permits for 'order:*'\r\n"
	a, b := l.Dial(t), l.Dial(t)
	again := []string{"LOCK.ACQUIRE", "order:1", "OWNER", "me"}
	if got := a.Reply(t, again...); got[0] != ':' {
		t.Fatal(got)
	}
	proxytest.Token(t, b, "order:2")
	for _, args := range [][]string{{"LOCK.ACQUIRE", "order:3"}, {"LOCK.ACQUIRE", "order:3", "BLOCK", "0"},
		{"LOCK.MACQUIRE", "2", "free", "order:3"}, {"SEM.ACQUIRE", "order:s"}, {"LOCK.ACQUIRE", "order:2", "BLOCK", "0"}} {
		a.Want(t, refusal, args...)
	}
	if got := a.Reply(t, again...); got[0] != ':' { // it has that already
		t.Error(got)
	}
	proxytest.Token(t, a, "free")
	a.Want(t, refusal, "LOCK.ACQUIRE", "order:3")
	a.Want(t, ":1\r\n", "LOCK.RELEASE", "order:1", "OWNER", "me", "ALL")
	a.Want(t, ":1\r\n", "SEM.INIT", "order:s", "5")
	a.Want(t, refusal, "SEM.ACQUIRE", "order:s", "COUNT", "2")
	if got := a.Reply(t, "SEM.ACQUIRE", "order:s"); got[0] != '$' {
		t.Fatal(got)
	}
	a.Want(t, refusal, "LOCK.ACQUIRE", "order:3")
	b.Close()
	proxytest.Eventually(t, "the end of a connection makes room", func() bool {
		return strings.HasPrefix(a.Reply(t, "LOCK.ACQUIRE", "order:3"), ":")
	})
	if n := l.Figures().LimitRefusals["name_holds"]; n < 8 {
		t.Errorf("counted %d refusals", n)
	}
}
