package failover_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// TestR2GraceCorrectsCounts: A new master has a hold with an older count. Leash corrects the count.
func TestR2GraceCorrectsCounts(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range []string{"", "READ", "WRITE"} {
			for _, meets := range []string{"the watchdog", "a release"} {
				t.Run(mode+" "+meets, func(t *testing.T) {
					cfg := locktest.GraceConfig()
					cfg.WatchdogTimeout = 10 * time.Minute // no renewal during the test
					s := locktest.Start(t, rdb, cfg, locktest.Graceful)
					a, key, other := locktest.Connect(t, s), locktest.NewKey(), locktest.NewKey()
					field := "me"
					if mode == "WRITE" {
						field = "me:write"
					}
					take := func(key string) {
						args := []string{"LOCK.ACQUIRE", key, "OWNER", "me"}
						if mode != "" {
							args = append(args, mode)
						}
						locktest.TokenOf(t, a.Do(args...))
						locktest.TokenOf(t, a.Do(args...))
					}
					take(key)
					take(other)
					locktest.Want(t, a.Do("LOCK.RELEASE", other), ":0")
					// first, because READ holds are renewed every 10 s
					rdb.HSet(t.Context(), key, field, 1)   // the new master does not know the second acquire
					rdb.HSet(t.Context(), other, field, 2) // the new master does not know the release
					defer locktest.BeginGrace(t, s, key)()
					defer locktest.BeginGrace(t, s, other)()
					if meets == "the watchdog" {
						s.Watchdog.CheckAll()
						locktest.Eventually(t, locktest.Soon, "the counts are right", func() bool {
							return rdb.HGet(t.Context(), key, field).Val() == "2" &&
								rdb.HGet(t.Context(), other, field).Val() == "1"
						})
					}
					locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
					locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
					locktest.Want(t, a.Do("LOCK.RELEASE", other), ":1")
					if locktest.Exists(t, rdb, key) || locktest.Exists(t, rdb, other) || len(a.Losses) > 0 ||
						s.Stats().Restored != 0 {
						t.Errorf("losses %d, restored %d", len(a.Losses), s.Stats().Restored)
					}
				})
			}
		}
	})
}

// TestR2GraceCorrectsLeases: A new master has an older lease. Leash sets it to the length that its
// owner was told.
func TestR2GraceCorrectsLeases(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := locktest.GraceConfig()
		cfg.WatchdogTimeout = 10 * time.Minute // no check during the test
		s, other := locktest.Start(t, rdb, cfg, locktest.Graceful), locktest.Start(t, rdb, cfg, locktest.Graceful)
		for _, mode := range []string{"", "READ", "WRITE"} {
			t.Run(mode, func(t *testing.T) {
				a, key := locktest.Connect(t, s), locktest.NewKey()
				args := []string{"LOCK.ACQUIRE", key, "OWNER", "me", "LEASE", "600000"}
				if mode != "" {
					args = append(args, mode)
				}
				token := locktest.TokenOf(t, a.Do(args...))
				defer locktest.BeginGrace(t, s, key)()
				for _, k := range locktest.KeysOf(t, rdb, key) {
					if k != script.TokenKey(key) {
						rdb.PExpire(t.Context(), k, 10*time.Second)
					}
				}
				s.Watchdog.CheckAll()
				locktest.Eventually(t, locktest.Soon, "the lease is right", func() bool {
					return rdb.PTTL(t.Context(), key).Val() > 5*time.Minute
				})
				h := a.Last(func(*hold.Hold) bool { return true })
				if left := time.Until(s.Watchdog.Until(&h.Watch)); left < 5*time.Minute {
					t.Errorf("its owner relies on it for %v", left)
				}
				locktest.Want(t, locktest.Connect(t, other).Do("LOCK.EXTEND", key, "60000", "TOKEN",
					strconv.FormatInt(token, 10)),
					":60000")
				locktest.Eventually(t, locktest.Soon, "what another has set counts", func() bool {
					s.Watchdog.CheckAll()
					return time.Until(s.Watchdog.Until(&h.Watch)) < 2*time.Minute
				})
				if left := rdb.PTTL(t.Context(), key).Val(); left > 2*time.Minute {
					t.Errorf("it lasts for %v", left)
				}
			})
		}
	})
}

// TestR2RestoreBesideAnotherHoldWritesNothing: A READ hold cannot be restored. The WRITE hold of
// its owner stays as it was.
func TestR2RestoreBesideAnotherHoldWritesNothing(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, locktest.GraceConfig(), locktest.Graceful)
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(key, "WRITE", "OWNER", "me")
		before := writeRecord(t, rdb, key)
		a.Token(key, "READ", "OWNER", "me")
		h := a.Last(func(h *hold.Hold) bool { return h.Mode() == script.Read })
		defer locktest.BeginGrace(t, s, key)()
		m, _ := s.Graces.MasterOf(key, time.Time{}, time.Now().Add(locktest.Soon))
		rdb.HDel(t.Context(), key, "me") // the new master does not know it
		rdb.HSet(t.Context(), script.RecordsKey(key), "me:write", before)
		locktest.PutOther(rdb, h, h.Token+1)
		results, err := s.Redis.Restore(locktest.RestoreArgs(m, h), s.Redis.Deadline())
		if after := writeRecord(t, rdb, key); err != nil || results[0].Outcome != script.RestoreHeldByOther ||
			before != after {
			t.Errorf("answered %v %v, the write hold was %q and is %q", results, err, before, after)
		}
	})
}

// writeRecord returns the record of the WRITE hold of "me".
func writeRecord(t testing.TB, rdb redis.UniversalClient, key string) string {
	t.Helper()
	text, err := rdb.HGet(t.Context(), script.RecordsKey(key), "me:write").Result()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
