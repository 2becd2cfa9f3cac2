package failover_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/failover"
)

// TestR2GraceReleaseMeetsTheMaster: A new master has another count than the carrier. A release is
// the first request to reach it. Its count is corrected first, and then the release counts once.
func TestR2GraceReleaseMeetsTheMaster(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := locktest.GraceConfig()
		cfg.WatchdogTimeout = 10 * time.Minute // no renewal during the test
		for _, mode := range []string{"", "READ", "WRITE"} {
			t.Run(mode, func(t *testing.T) {
				s := locktest.Start(t, rdb, cfg, locktest.Graceful)
				a, more, less, modes := locktest.Connect(t, s), locktest.NewKey(), locktest.NewKey(),
					strings.Fields(mode)
				field := "me"
				if mode == "WRITE" {
					field = "me:write"
				}
				for _, key := range []string{more, more, less, less} {
					a.Token(append([]string{key, "OWNER", "me"}, modes...)...)
				}
				locktest.Want(t, a.Do("LOCK.RELEASE", less), ":0")
				rdb.HSet(t.Context(), more, field, 1) // the new master does not know the second acquire
				rdb.HSet(t.Context(), less, field, 2) // the new master does not know the release
				defer meetAgain(t, s, more)()
				locktest.Want(t, a.Do("LOCK.RELEASE", more), ":0")
				locktest.Eventually(t, locktest.Soon, "the other acquire counts", func() bool {
					return rdb.HGet(t.Context(), more, field).Val() == "1"
				})
				locktest.Want(t, a.Do("LOCK.RELEASE", more), ":1")
				defer meetAgain(t, s, less)()
				locktest.Want(t, a.Do("LOCK.RELEASE", less), ":1")
				if locktest.Exists(t, rdb, more) || locktest.Exists(t, rdb, less) || len(a.Losses) > 0 {
					t.Error("it was not released as it should")
				}
			})
		}
	})
}

// meetAgain lets the next probe find that the master of a key is in its grace period, until end is
// called.
func meetAgain(t testing.TB, s *lockcmd.Service, key string) (end func()) {
	t.Helper()
	end = locktest.BeginGrace(t, s, key)
	failover.Rehearsal{Masters: s.Graces}.Forget(key)
	return end
}
