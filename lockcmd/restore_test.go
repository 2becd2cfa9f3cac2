package lockcmd

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/event"
	"leash/lockcmd/failover"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/renewal"
)

// graceful makes a Service treat every master as out of its grace period, however young it is.
func graceful(s *Service) { failover.Rehearsal{Masters: s.Graces}.Never() }

func graceConfig() Config { return Config{FailoverGrace: time.Hour} }

// beginGrace makes a Leash treat the master of key as new until end is called.
func beginGrace(t testing.TB, s *Service, key string) (end func()) {
	t.Helper()
	over := failover.Rehearsal{Masters: s.Graces}.Begin(key, time.Now().Add(soon))
	if over == nil {
		t.Fatal("nobody serves the key")
	}
	return func() {
		over()
		s.Waits.WakeAll()
	}
}

// forget deletes everything of a lock in Redis and does what put does, all at once. A check by the
// watchdog between two steps would restore what is missing then.
func forget(t testing.TB, rdb redis.UniversalClient, key string, put ...func(redis.Cmdable)) {
	t.Helper()
	ctx, keys := context.Background(), keysOf(t, rdb, key)
	_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range keys {
			p.Del(ctx, k)
		}
		for _, f := range put {
			f(p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// keysOf returns the keys of a lock and its helper keys.
func keysOf(t testing.TB, rdb redis.UniversalClient, key string) (keys []string) {
	t.Helper()
	var mu sync.Mutex
	scan := func(ctx context.Context, c *redis.Client) error {
		for _, pattern := range []string{key, "*{" + key + "}*"} {
			found, err := c.Keys(ctx, pattern).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			keys = append(keys, found...)
			mu.Unlock()
		}
		return nil
	}
	var err error
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(context.Background(), scan)
	case *redis.Client:
		err = scan(context.Background(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

var untilText = regexp.MustCompile(`^until=\d+$`)

// stateOf returns the state of a lock in Redis: types and fields, and the part of each record that
// a restore must reproduce.
func stateOf(t testing.TB, rdb redis.UniversalClient, key string) (lines []string) {
	t.Helper()
	ctx := context.Background()
	for _, k := range keysOf(t, rdb, key) {
		line := k
		switch kind := rdb.Type(ctx, k).Val(); kind {
		case "hash":
			for field, value := range rdb.HGetAll(ctx, k).Val() {
				if r, ok := script.ParseRecord(value); ok {
					more := untilText.ReplaceAllString(r.Ext, "-") // this changes with time
					value = strings.Join([]string{strconv.FormatInt(r.Token, 10), r.Carrier,
						strconv.FormatInt(r.TTL, 10), r.Options, more, r.ID, r.Client}, " ")
				}
				lines = append(lines, k+" "+field+" "+value)
			}
			continue
		case "string":
			line += " " + rdb.Get(ctx, k).Val()
		case "zset":
			line += " " + strings.Join(rdb.ZRange(ctx, k, 0, -1).Val(), " ")
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// TestR2RestoreOfEachMode: A new master does not have a hold. Leash restores it as it was, with its
// tokens.
func TestR2RestoreOfEachMode(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, graceConfig(), graceful)
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
				a, key := connect(t, s), newKey()
				for _, take := range c.takes {
					take[1] = key
					tokenOf(t, a.do(take...))
				}
				before, restored := stateOf(t, rdb, key), s.Stats().Restored
				end := beginGrace(t, s, key)
				forget(t, rdb, key)
				s.Watchdog.CheckAll()
				eventually(t, soon, "the hold is restored", func() bool {
					return s.Stats().Restored == restored+c.holds
				})
				end()
				if after := stateOf(t, rdb, key); !slices.Equal(before, after) {
					t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
				}
				if left := rdb.PTTL(t.Context(), key).Val(); left < 20*time.Second || left > time.Minute+2*time.Second {
					t.Errorf("it lasts for %v", left)
				}
				for range c.takes {
					wantPrefix(t, a.do("LOCK.RELEASE", key), ":")
				}
				if len(a.losses) > 0 {
					t.Errorf("lost %s", <-a.losses)
				}
				if exists(t, rdb, key) {
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, graceConfig(), graceful)
		a, b, key := connect(t, s), connect(t, s), newKey()
		want(t, a.do("SEM.INIT", key, "3"), ":1")
		wantPrefix(t, a.do("SEM.ACQUIRE", key, "COUNT", "2"), "*2")
		before := stateOf(t, rdb, key)
		end := beginGrace(t, s, key)
		rdb.Del(t.Context(), script.PermitsKey(key))
		rdb.Del(t.Context(), script.RecordsKey(key))
		rdb.Set(t.Context(), key, 3, 0)
		want(t, b.do("SEM.ACQUIRE", key), "$-1")
		s.Watchdog.CheckAll()
		eventually(t, soon, "they are restored", func() bool { return s.Stats().Restored == 2 })
		if after := stateOf(t, rdb, key); !slices.Equal(before, after) {
			t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
		want(t, a.do("SEM.RELEASE", key), ":1")
		want(t, b.do("SEM.ACQUIRE", key), "$-1")
		forget(t, rdb, key)
		s.Watchdog.CheckAll()
		want(t, receive(t, a.losses, soon), key+" "+renewal.ReasonGone)
		end()
	})
}

// TestR2RestoreIsNotWaitedFor: A command about a hold that a new master has forgotten works before
// the watchdog finds that the hold is missing.
func TestR2RestoreIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := graceConfig()
		cfg.WatchdogTimeout = 10 * time.Minute
		// otherwise the watchdog could restore the hold before the command
		hasty := func(s *Service) { s.Releaser.MaxSeeks = 1 }
		s := leash(t, rdb, cfg, graceful, hasty)
		for _, mode := range []string{"", "FAIR", "READ", "WRITE"} {
			t.Run("mode "+mode, func(t *testing.T) {
				a, key := connect(t, s), newKey()
				take := []string{"LOCK.ACQUIRE", key, "OWNER", "me"}
				if mode != "" {
					take = append(take, mode)
				}
				token := tokenOf(t, a.do(take...))
				defer beginGrace(t, s, key)()
				forget(t, rdb, key)
				want(t, a.do(take...), ":"+strconv.FormatInt(token, 10))
				want(t, connect(t, s).do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
				forget(t, rdb, key)
				want(t, a.do("LOCK.RELEASE", key), ":0")
				forget(t, rdb, key)
				want(t, a.do("LOCK.RELEASE", key), ":1")
				if exists(t, rdb, key) || len(a.losses) > 0 {
					t.Error("it was not released as it should")
				}
			})
		}
		a, key := connect(t, s), newKey()
		a.token(key, "LEASE", "600000")
		defer beginGrace(t, s, key)()
		forget(t, rdb, key)
		want(t, a.do("LOCK.EXTEND", key, "900000"), "-"+refusal.Refused)
		want(t, a.do("LOCK.EXTEND", key, "900000"), ":900000")
	})
}

// TestR2RestoreYields: A restore does not overwrite another valid hold, and does not bring back a
// hold that was ended.
func TestR2RestoreYields(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, graceConfig(), graceful)
		ctx := context.Background()
		for _, mode := range []string{"", "READ", "WRITE"} {
			for _, c := range []struct {
				name string
				put  func(p redis.Cmdable, h *hold.Hold)
				lost string // the reason of the loss
			}{
				{"an older hold", func(p redis.Cmdable, h *hold.Hold) { putOther(p, h, h.Token-1) }, ""},
				{"a later hold", func(p redis.Cmdable, h *hold.Hold) { putOther(p, h, h.Token+1) }, renewal.ReasonGone},
				{"a hold of Redisson's", func(p redis.Cmdable, h *hold.Hold) { putOther(p, h, 0) }, renewal.ReasonGone},
				{"a string", func(p redis.Cmdable, h *hold.Hold) { p.Set(ctx, h.Key(), "x", time.Minute) }, renewal.ReasonGone},
				{"broken", func(p redis.Cmdable, h *hold.Hold) {
					p.Set(ctx, script.TombstoneKey(h.Key(), h.Token, h.Carrier.Name), event.Broken, time.Minute)
				}, renewal.ReasonBroken},
			} {
				t.Run(mode+" "+c.name, func(t *testing.T) {
					a, key := connect(t, s), newKey()
					take := []string{"LOCK.ACQUIRE", key}
					if mode != "" {
						take = append(take, mode)
					}
					token := tokenOf(t, a.do(take...))
					h := a.carrier.last(func(*hold.Hold) bool { return true })
					end := beginGrace(t, s, key)
					defer end()
					restored := s.Stats().Restored
					forget(t, rdb, key, func(p redis.Cmdable) { c.put(p, h) })
					s.Watchdog.CheckAll()
					if c.lost != "" {
						want(t, receive(t, a.losses, soon), key+" "+c.lost)
						return
					}
					eventually(t, soon, "the hold is restored", func() bool { return s.Stats().Restored > restored })
					want(t, a.do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
					want(t, a.do("LOCK.RELEASE", key), ":1")
				})
			}
		}
	})
}

// putOther puts a hold of another owner in the place of h, in a mode that excludes h. With token 0
// it is a hold of Redisson.
func putOther(rdb redis.Cmdable, h *hold.Hold, token int64) {
	ctx, key := context.Background(), h.Key()
	text := script.RecordPrefix(token, "other:1.1") + "1 1 " + strconv.FormatInt(time.Now().UnixMilli(), 10) +
		" 60000 w - - -"
	if h.Mode() == script.Plain {
		rdb.HSet(ctx, key, "other", "1")
		if token > 0 {
			rdb.HSet(ctx, key, script.RecordField, text)
		}
	} else {
		rdb.HSet(ctx, key, "mode", "write", "other:write", "1")
		if token > 0 {
			rdb.HSet(ctx, script.RecordsKey(key), "other:write", text)
			rdb.PExpire(ctx, script.RecordsKey(key), time.Minute)
		}
	}
	rdb.PExpire(ctx, key, time.Minute)
}

// TestR2NothingIsRestoredOutOfGrace: Outside of a grace period nothing is restored, because
// somebody may have held the lock since.
func TestR2NothingIsRestoredOutOfGrace(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, graceConfig(), graceful)
		a, key := connect(t, s), newKey()
		a.token(key)
		h := a.carrier.last(func(*hold.Hold) bool { return true })
		end := beginGrace(t, s, key)
		m, ok := s.Graces.MasterOf(key, time.Time{}, time.Now().Add(soon))
		if !ok || !m.InGrace() {
			t.Fatal("the master is in no grace")
		}
		end()
		now := time.Now().UnixMilli()
		for want, late := range map[script.RestoreOutcome]failover.Master{
			script.RestoreGraceOver:   {ReplID: m.ReplID, ClockGraceEnd: now - 1},
			script.RestoreOtherMaster: {ReplID: "another", ClockGraceEnd: now + 60_000}} {
			forget(t, rdb, key)
			results, err := s.Redis.Restore(restoreArgs(late, h), s.deadline())
			if err != nil || results[0].Outcome != want || exists(t, rdb, key) {
				t.Errorf("a late copy was answered %v %v", results, err)
			}
		}
		s.Watchdog.CheckAll()
		want(t, receive(t, a.losses, soon), key+" "+renewal.ReasonGone)
	})
}

// TestR2RestoreIsNotGuessed: While it is unknown whether a missing hold can be restored, it counts
// neither as lost nor as released.
func TestR2RestoreIsNotGuessed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := graceConfig()
		cfg.WatchdogTimeout, cfg.UpstreamTimeout = 10*time.Minute, 2*time.Second
		s := leash(t, rdb, cfg, graceful)
		a, key := connect(t, s), newKey()
		lease := "{" + key + "}lease"
		a.token(key)
		h := s.Holds.Find(lockOf(key), func(*hold.Hold) bool { return true })
		a.token(lease, "LEASE", "600000")
		defer beginGrace(t, s, key)()
		forget(t, rdb, key)
		answers := failover.Rehearsal{Masters: s.Graces}.SilenceAll()
		want(t, a.do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
		answers()
		eventually(t, soon, "it is restored and released", func() bool { return h.State() == hold.Over })
		if exists(t, rdb, key) || len(a.losses) > 0 {
			t.Error("it was not released as it should")
		}
		forget(t, rdb, lease)
		answers = failover.Rehearsal{Masters: s.Graces}.SilenceAll()
		want(t, a.do("LOCK.EXTEND", lease, "900000"), "-"+refusal.Refused)
		answers()
		if len(a.losses) > 0 {
			t.Errorf("lost %s", <-a.losses)
		}
	})
}

// restoreArgs say how a Leash restores h on a master.
func restoreArgs(m failover.Master, h *hold.Hold) *script.RestoreArgs {
	return &script.RestoreArgs{
		Mode: h.Mode(), Master: m.ReplID, GraceEnd: m.ClockGraceEnd, Holds: []script.RestoredHold{h.ToRestore()},
	}
}
