package proxy

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/pubsub"
)

// TestHoldsEndByTheirName checks that a lock whose name matches a pattern is lost after the time of
// the pattern, also when it is taken with others, and that no other lock is.
func TestHoldsEndByTheirName(t *testing.T) {
	t.Parallel()
	l := startLeash(t, []string{redistest.Start(t).Addr}, func(o *options) {
		o.locks.MaxHoldOf = func(key string) time.Duration {
			if pubsub.Match("order:*", key) {
				return 300 * time.Millisecond
			}
			return 0
		}
	})
	c := l.dial(t)
	for _, args := range [][]string{
		{"LOCK.ACQUIRE", "order:1", "ONLOSS", "ERROR"},
		{"LOCK.ACQUIRE", "order:2", "MAXHOLD", "60000", "ONLOSS", "ERROR"},
		{"LOCK.ACQUIRE", "other", "ONLOSS", "ERROR"},
	} {
		if got := do(t, c, args...); got[0] != ':' {
			t.Fatalf("%q: %q", args, got)
		}
	}
	if got := do(t, c, "LOCK.MACQUIRE", "2", "free", "order:3", "ONLOSS", "ERROR"); got[0] == '-' {
		t.Fatalf("got %q", got)
	}
	for _, key := range []string{"order:1", "order:2", "order:3"} {
		eventually(t, key+" is lost", func() bool {
			return strings.HasPrefix(do(t, c, "LOCK.TTL", key), "-LOCKLOST "+key+" maxhold")
		})
	}
	if got := do(t, c, "LOCK.TTL", "other"); got[0] != ':' || got[1] == '-' {
		t.Errorf("the lock without a pattern: got %q", got)
	}
}
