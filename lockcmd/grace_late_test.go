package lockcmd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
	"leash/lockcmd/event"
	"leash/lockcmd/failover"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// TestR2GraceLateRestore: A restore request reaches Redis after its hold was released. It does
// nothing.
func TestR2GraceLateRestore(t *testing.T) {
	for _, c := range []struct {
		name    string
		take    []string
		meet    []string // the command that finds the hold missing; the watchdog if empty
		release []string
	}{
		{"plain", []string{"LOCK.ACQUIRE", "K", "OWNER", "me"}, []string{"LOCK.ACQUIRE", "K", "OWNER", "me"},
			[]string{"LOCK.RELEASE", "K", "ALL"}},
		{"read", []string{"LOCK.ACQUIRE", "K", "READ", "OWNER", "me"},
			[]string{"LOCK.ACQUIRE", "K", "READ", "OWNER", "me"}, []string{"LOCK.RELEASE", "K", "ALL"}},
		{"write", []string{"LOCK.ACQUIRE", "K", "WRITE", "OWNER", "me"}, nil, []string{"LOCK.RELEASE", "K"}},
		{"with an ID", []string{"LOCK.ACQUIRE", "K", "OWNER", "me"}, nil,
			[]string{"LOCK.RELEASE", "K", "OWNER", "me", "ID", "7"}},
		{"released meanwhile", []string{"LOCK.ACQUIRE", "K", "OWNER", "me"}, []string{"LOCK.RELEASE", "K"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p, err := faultproxy.New(server.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			cfg := graceConfig()
			// no renewal during the test
			cfg.WatchdogTimeout, cfg.UpstreamTimeout = 10*time.Minute, 20*time.Second
			s, rdb, key := leash(t, dialServer(t, p.Addr()), cfg, graceful), dialServer(t, server.Addr), newKey()
			a := connect(t, s)
			ask := func(words []string) string {
				words = slices.Clone(words)
				words[1] = key
				return a.do(words...)
			}
			tokenOf(t, ask(c.take))
			h := a.carrier.last(func(*hold.Hold) bool { return true })
			restore := h.Mode().Restore
			rdb.ScriptLoad(t.Context(), restore.Source)
			rdb.ConfigSet(t.Context(), "slowlog-log-slower-than", "0")
			rdb.ConfigSet(t.Context(), "slowlog-max-len", "10000")
			defer beginGrace(t, s, key)()
			forget(t, rdb, key)
			late := p.HoldBefore(running(restore, key))
			defer late.Release()
			if c.meet == nil {
				s.watchdog.CheckAll()
				eventually(t, soon, "the hold is restored", func() bool { return s.Stats().Restored == 1 })
			} else {
				wantPrefix(t, ask(c.meet), ":")
			}
			if c.release != nil {
				want(t, ask(c.release), ":1")
			}
			if late.Count() != 1 || exists(t, rdb, key) || ran(t, rdb, restore) != 1 {
				t.Fatalf("%d requests are late, %d came", late.Count(), ran(t, rdb, restore))
			}
			late.Release()
			eventually(t, soon, "the late one comes", func() bool { return ran(t, rdb, restore) == 2 })
			if exists(t, rdb, key) || len(a.losses) > 0 {
				t.Error("it exists again, without a holder")
			}
		})
	}
}

// ran returns how often a script ran by its hash, according to the slow log.
func ran(t testing.TB, rdb *redis.Client, sc *transport.Script) (n int) {
	t.Helper()
	entries, err := rdb.SlowLogGet(t.Context(), -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if len(e.Args) > 1 && strings.EqualFold(e.Args[0], "EVALSHA") && e.Args[1] == sc.SHA {
			n++
		}
	}
	return n
}

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
	failover.Rehearsal{Masters: s.graces}.Forget(key)
	return end
}

// TestR26BlocksNoOtherRestore: A tombstone that says how a hold ended is neither overwritten nor
// deleted by the mark of a pending release.
func TestR26BlocksNoOtherRestore(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		for _, c := range []struct {
			there   string
			lasts   time.Duration
			left    string
			written bool
		}{
			{"", time.Minute, event.ReleasePending, true},
			{"extended 5", time.Minute, event.ReleasePending, true},
			{event.ReleasePending, time.Minute, event.ReleasePending, true},
			{event.Broken, time.Minute, event.Broken, false},
			{event.Moved + " other:1.1", time.Minute, event.Moved + " other:1.1", false},
			{event.ReleasePending, 0, "", true},
			{"", 0, "", true},
			{"extended 5", 0, "extended 5", false},
			{event.Released, 0, event.Released, false},
		} {
			ref := script.Ref{Lock: script.Lock{Key: newKey()}, Token: 1, Carrier: "u:1"}
			key := script.TombstoneKey(ref.Lock.Key, ref.Token, ref.Carrier)
			if c.there != "" {
				rdb.Set(t.Context(), key, c.there, 0)
			}
			written, err := s.redis.WriteTombstone(ref, event.ReleasePending, c.lasts, "", s.deadline())
			if text := rdb.Get(t.Context(), key).Val(); err != nil || written != c.written || text != c.left {
				t.Errorf("over %q, for %v: %t, %v, and it says %q", c.there, c.lasts, written, err, text)
			}
		}
	})
}
