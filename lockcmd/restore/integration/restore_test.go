package restore_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/failover"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/renewal"
)

// TestR2RestoreOfEachMode: A new master does not have a hold. Leash restores it as it was, with its
// tokens.
func TestR2RestoreOfEachMode(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, locktest.GraceConfig(), locktest.Graceful)
		for _, c := range []struct {
			name  string
			takes [][]string
			holds int64
		}{
			{"plain", [][]string{{"LOCK.ACQUIRE", "K"}}, 1},
			{"entered again", [][]string{{"LOCK.ACQUIRE", "K", "OWNER", "me"},
				{"LOCK.ACQUIRE", "K", "OWNER", "me", "ID", "7", "MAXHOLD", "100000"}}, 1},
			{"with all its terms",
				[][]string{{"LOCK.ACQUIRE", "K", "OWNER", "me", "MAXHOLD", "100000", "ONLOSS", "ERROR", "ONCLOSE",
					"EXPIRE"}}, 1},
			{"a lease", [][]string{{"LOCK.ACQUIRE", "K", "LEASE", "60000"}}, 1},
			{"fair", [][]string{{"LOCK.ACQUIRE", "K", "FAIR"}}, 1},
			{"read", [][]string{{"LOCK.ACQUIRE", "K", "READ"}, {"LOCK.ACQUIRE", "K", "READ", "OWNER", "me"},
				{"LOCK.ACQUIRE", "K", "READ", "OWNER", "me"}}, 2},
			{"write", [][]string{{"LOCK.ACQUIRE", "K", "WRITE"}}, 1},
			{"write and read", [][]string{{"LOCK.ACQUIRE", "K", "WRITE", "OWNER", "me"},
				{"LOCK.ACQUIRE", "K", "READ", "OWNER", "me"}}, 2},
		} {
			t.Run(c.name, func(t *testing.T) {
				a, key := locktest.Connect(t, s), locktest.NewKey()
				for _, take := range c.takes {
					take[1] = key
					locktest.TokenOf(t, a.Do(take...))
				}
				before, restored := locktest.StateOf(t, rdb, key), s.Stats().Restored
				end := locktest.BeginGrace(t, s, key)
				locktest.Forget(t, rdb, key)
				s.Watchdog.CheckAll()
				locktest.Eventually(t, locktest.Soon, "the hold is restored", func() bool {
					return s.Stats().Restored == restored+c.holds
				})
				end()
				if after := locktest.StateOf(t, rdb, key); !slices.Equal(before, after) {
					t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
				}
				if left := rdb.PTTL(t.Context(), key).Val(); left < 20*time.Second || left > time.Minute+2*time.Second {
					t.Errorf("it lasts for %v", left)
				}
				for range c.takes {
					locktest.WantPrefix(t, a.Do("LOCK.RELEASE", key), ":")
				}
				if len(a.Losses) > 0 {
					t.Errorf("lost %s", <-a.Losses)
				}
				if locktest.Exists(t, rdb, key) {
					t.Error("it has no holder, and exists")
				}
			})
		}
	})
}

// TestR2RestoreOfPermits: Permits are restored, unless the new master has forgotten the semaphore
// too.
func TestR2RestoreOfPermits(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, locktest.GraceConfig(), locktest.Graceful)
		a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
		locktest.Want(t, a.Do("SEM.INIT", key, "3"), ":1")
		locktest.WantPrefix(t, a.Do("SEM.ACQUIRE", key, "COUNT", "2"), "*2")
		before := locktest.StateOf(t, rdb, key)
		end := locktest.BeginGrace(t, s, key)
		rdb.Del(t.Context(), script.PermitsKey(key))
		rdb.Del(t.Context(), script.RecordsKey(key))
		rdb.Set(t.Context(), key, 3, 0)
		locktest.Want(t, b.Do("SEM.ACQUIRE", key), "$-1")
		s.Watchdog.CheckAll()
		locktest.Eventually(t, locktest.Soon, "they are restored", func() bool { return s.Stats().Restored == 2 })
		if after := locktest.StateOf(t, rdb, key); !slices.Equal(before, after) {
			t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
		locktest.Want(t, a.Do("SEM.RELEASE", key), ":1")
		locktest.Want(t, b.Do("SEM.ACQUIRE", key), "$-1")
		locktest.Forget(t, rdb, key)
		s.Watchdog.CheckAll()
		locktest.Want(t, locktest.Receive(t, a.Losses, locktest.Soon), key+" "+renewal.ReasonGone)
		end()
	})
}

// TestR2RestoreIsNotWaitedFor: A command about a hold that a new master has forgotten works before
// the watchdog finds that the hold is missing.
func TestR2RestoreIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := locktest.GraceConfig()
		cfg.WatchdogTimeout = 10 * time.Minute
		// otherwise the watchdog could restore the hold before the command
		hasty := func(s *lockcmd.Service) { s.Releaser.MaxSeeks = 1 }
		s := locktest.Start(t, rdb, cfg, locktest.Graceful, hasty)
		for _, mode := range []string{"", "FAIR", "READ", "WRITE"} {
			t.Run("mode "+mode, func(t *testing.T) {
				a, key := locktest.Connect(t, s), locktest.NewKey()
				take := []string{"LOCK.ACQUIRE", key, "OWNER", "me"}
				if mode != "" {
					take = append(take, mode)
				}
				token := locktest.TokenOf(t, a.Do(take...))
				defer locktest.BeginGrace(t, s, key)()
				locktest.Forget(t, rdb, key)
				locktest.Want(t, a.Do(take...), ":"+strconv.FormatInt(token, 10))
				locktest.Want(t, locktest.Connect(t, s).Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)),
					":1")
				locktest.Forget(t, rdb, key)
				locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
				locktest.Forget(t, rdb, key)
				locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
				if locktest.Exists(t, rdb, key) || len(a.Losses) > 0 {
					t.Error("it was not released as it should")
				}
			})
		}
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(key, "LEASE", "600000")
		defer locktest.BeginGrace(t, s, key)()
		locktest.Forget(t, rdb, key)
		locktest.Want(t, a.Do("LOCK.EXTEND", key, "900000"), "-"+refusal.NotAccepted)
		locktest.Want(t, a.Do("LOCK.EXTEND", key, "900000"), ":900000")
	})
}

// TestR2RestoreYields: A restore does not overwrite another valid hold, and does not bring back a
// hold that was ended.
func TestR2RestoreYields(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, locktest.GraceConfig(), locktest.Graceful)
		ctx := context.Background()
		for _, mode := range []string{"", "READ", "WRITE"} {
			for _, c := range []struct {
				name string
				put  func(p redis.Cmdable, h *hold.Hold)
				lost string // the reason of the loss
			}{
				{"an older hold", func(p redis.Cmdable, h *hold.Hold) { locktest.PutOther(p, h, h.Token-1) }, ""},
				{"a later hold", func(p redis.Cmdable, h *hold.Hold) { locktest.PutOther(p, h, h.Token+1) },
					renewal.ReasonGone},
				{"a hold of Redisson's", func(p redis.Cmdable, h *hold.Hold) { locktest.PutOther(p, h, 0) },
					renewal.ReasonGone},
				{"a string", func(p redis.Cmdable, h *hold.Hold) { p.Set(ctx, h.Key(), "x", time.Minute) },
					renewal.ReasonGone},
				{"broken", func(p redis.Cmdable, h *hold.Hold) {
					p.Set(ctx, script.TombstoneKey(h.Key(), h.Token, h.Carrier.Name), event.Broken, time.Minute)
				}, renewal.ReasonBroken},
			} {
				t.Run(mode+" "+c.name, func(t *testing.T) {
					a, key := locktest.Connect(t, s), locktest.NewKey()
					take := []string{"LOCK.ACQUIRE", key}
					if mode != "" {
						take = append(take, mode)
					}
					token := locktest.TokenOf(t, a.Do(take...))
					h := a.Last(func(*hold.Hold) bool { return true })
					end := locktest.BeginGrace(t, s, key)
					defer end()
					restored := s.Stats().Restored
					locktest.Forget(t, rdb, key, func(p redis.Cmdable) { c.put(p, h) })
					s.Watchdog.CheckAll()
					if c.lost != "" {
						locktest.Want(t, locktest.Receive(t, a.Losses, locktest.Soon), key+" "+c.lost)
						return
					}
					locktest.Eventually(t, locktest.Soon, "the hold is restored",
						func() bool { return s.Stats().Restored > restored })
					locktest.Want(t, a.Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
					locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
				})
			}
		}
	})
}

// TestR2NothingIsRestoredOutOfGrace: Outside of a grace period nothing is restored, because
// somebody may have held the lock since.
func TestR2NothingIsRestoredOutOfGrace(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, locktest.GraceConfig(), locktest.Graceful)
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(key)
		h := a.Last(func(*hold.Hold) bool { return true })
		end := locktest.BeginGrace(t, s, key)
		m, ok := s.Graces.MasterOf(key, time.Time{}, time.Now().Add(locktest.Soon))
		if !ok || !m.InGrace() {
			t.Fatal("the master is in no grace")
		}
		end()
		now := time.Now().UnixMilli()
		for want, late := range map[script.RestoreOutcome]failover.Master{
			script.RestoreGraceOver:   {ReplID: m.ReplID, ClockGraceEnd: now - 1},
			script.RestoreOtherMaster: {ReplID: "another", ClockGraceEnd: now + 60_000}} {
			locktest.Forget(t, rdb, key)
			results, err := s.Redis.Restore(locktest.RestoreArgs(late, h), s.Redis.Deadline())
			if err != nil || results[0].Outcome != want || locktest.Exists(t, rdb, key) {
				t.Errorf("a late copy was answered %v %v", results, err)
			}
		}
		s.Watchdog.CheckAll()
		locktest.Want(t, locktest.Receive(t, a.Losses, locktest.Soon), key+" "+renewal.ReasonGone)
	})
}

// TestR2RestoreIsNotGuessed: While it is unknown whether a missing hold can be restored, it counts
// neither as lost nor as released.
func TestR2RestoreIsNotGuessed(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := locktest.GraceConfig()
		cfg.WatchdogTimeout, cfg.UpstreamTimeout = 10*time.Minute, 2*time.Second
		s := locktest.Start(t, rdb, cfg, locktest.Graceful)
		a, key := locktest.Connect(t, s), locktest.NewKey()
		lease := "{" + key + "}lease"
		a.Token(key)
		h := s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true })
		a.Token(lease, "LEASE", "600000")
		defer locktest.BeginGrace(t, s, key)()
		locktest.Forget(t, rdb, key)
		answers := failover.Rehearsal{Masters: s.Graces}.SilenceAll()
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
		answers()
		locktest.Eventually(t, locktest.Soon, "it is restored and released",
			func() bool { return h.State() == hold.Over })
		if locktest.Exists(t, rdb, key) || len(a.Losses) > 0 {
			t.Error("it was not released as it should")
		}
		locktest.Forget(t, rdb, lease)
		answers = failover.Rehearsal{Masters: s.Graces}.SilenceAll()
		locktest.Want(t, a.Do("LOCK.EXTEND", lease, "900000"), "-"+refusal.NotAccepted)
		answers()
		if len(a.Losses) > 0 {
			t.Errorf("lost %s", <-a.Losses)
		}
	})
}
