package lockcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/failover"
)

// TestR2GraceReleaseMeetsTheMaster: A new master has another count than the carrier. A release is
// the first request to reach it. Its count is corrected first, and then the release counts once.
func TestR2GraceReleaseMeetsTheMaster(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := graceConfig()
		cfg.WatchdogTimeout = 10 * time.Minute // no renewal during the test
		for _, mode := range []string{"", "READ", "WRITE"} {
			t.Run(mode, func(t *testing.T) {
				s := leash(t, rdb, cfg, graceful)
				a, more, less, modes := connect(t, s), newKey(), newKey(), strings.Fields(mode)
				field := "me"
				if mode == "WRITE" {
					field = "me:write"
				}
				for _, key := range []string{more, more, less, less} {
					a.token(append([]string{key, "OWNER", "me"}, modes...)...)
				}
				want(t, a.do("LOCK.RELEASE", less), ":0")
				rdb.HSet(t.Context(), more, field, 1) // the new master does not know the second acquire
				rdb.HSet(t.Context(), less, field, 2) // the new master does not know the release
				defer meetAgain(t, s, more)()
				want(t, a.do("LOCK.RELEASE", more), ":0")
				eventually(t, soon, "the other acquire counts", func() bool {
					return rdb.HGet(t.Context(), more, field).Val() == "1"
				})
				want(t, a.do("LOCK.RELEASE", more), ":1")
				defer meetAgain(t, s, less)()
				want(t, a.do("LOCK.RELEASE", less), ":1")
				if exists(t, rdb, more) || exists(t, rdb, less) || len(a.losses) > 0 {
					t.Error("it was not released as it should")
				}
			})
		}
	})
}

// meetAgain lets the next probe find that the master of a key is in its grace period, until end is
// called.
func meetAgain(t testing.TB, s *Service, key string) (end func()) {
	t.Helper()
	end = beginGrace(t, s, key)
	failover.Rehearsal{Masters: s.Graces}.Forget(key)
	return end
}
