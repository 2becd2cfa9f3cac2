package lockcmd

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR30ReleaseFromAnyConnection(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for _, where := range []*Service{s, other} {
			for _, by := range []string{"TOKEN", "OWNER"} {
				key := newKey()
				a, b := connect(t, s), connect(t, where)
				token := strconv.FormatInt(a.token(key, "OWNER", "me"), 10)
				proof := map[string]string{"TOKEN": token, "OWNER": "me"}[by]
				want(t, b.do("LOCK.RELEASE", key, "TOKEN", "5"), "-"+refusal.NotHeld)
				want(t, b.do("LOCK.RELEASE", key, "OWNER", "you"), "-"+refusal.NotHeld)
				want(t, b.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
				want(t, b.do("LOCK.RELEASE", key, by, proof), ":1")
				want(t, b.do("LOCK.RELEASE", key, by, proof), "-"+refusal.NotHeld)
				if exists(t, rdb, key) {
					t.Error("the lock is still there")
				}
				eventually(t, 3*time.Second, "the carrier forgets", func() bool { return a.carrier.Holds() == 0 })
				if len(a.losses) != 0 {
					t.Errorf("%s: reported as a loss: %s", by, <-a.losses)
				}
				n, _ := strconv.ParseInt(token, 10, 64)
				if laid := exists(t, rdb, script.TombstoneKey(key, n, a.carrier.Name)); laid != (where == other) {
					t.Errorf("tombstone written: %v", laid)
				}
			}
		}
	})
}

func TestR30TombstoneReplacesALostEvent(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *Service) { s.Events.Own = "nowhere" }
		s, other, key := leash(t, rdb, Config{}, withoutEvents),
			leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, other)
		a.token(key, "OWNER", "me")
		a.token(key, "OWNER", "me")
		want(t, b.do("LOCK.RELEASE", key, "OWNER", "me"), ":0")
		want(t, b.do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
		s.Watchdog.CheckAll()
		eventually(t, 3*time.Second, "the carrier forgets", func() bool { return a.carrier.Holds() == 0 })
		if len(a.losses) != 0 {
			t.Error("a release was reported as a loss")
		}
	})
}

func TestR27ForcedEndIsReportedAsLoss(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		a, b := connect(t, s), connect(t, s)
		gone, overwritten, kept := newKey(), newKey(), newKey()
		a.token(gone)
		b.token(overwritten)
		c := connect(t, s)
		c.token(kept)
		rdb.Del(ctx, gone)
		rdb.Set(ctx, overwritten, "poison", 0) // R25: does not affect the others
		rdb.PExpire(ctx, kept, 10*time.Second)
		s.Watchdog.CheckAll()
		want(t, receive(t, a.losses, time.Second), gone+" gone")
		want(t, receive(t, b.losses, time.Second), overwritten+" gone")
		eventually(t, time.Second, "the innocent hold is renewed", func() bool {
			return rdb.PTTL(ctx, kept).Val() > 15*time.Second
		})
		if len(c.losses) != 0 {
			t.Errorf("lost %s", <-c.losses)
		}
		if got := s.Stats().Losses["gone"]; got != 2 {
			t.Errorf("got %d losses counted, want 2", got)
		}
		want(t, a.do("LOCK.RELEASE", gone), "-"+refusal.NotHeld)
	})
}

func TestR28EndOfConnection(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		plain, leased, entered := newKey(), newKey(), newKey()
		a := connect(t, s)
		a.token(plain)
		a.token(leased, "LEASE", "90000")
		a.token(entered, "OWNER", "me")
		a.token(entered, "OWNER", "me")
		a.carrier.End(Release)
		eventually(t, time.Second, "the holds end", func() bool {
			return !exists(t, rdb, plain) && !exists(t, rdb, entered)
		})
		if left := rdb.PTTL(ctx, leased).Val(); left < 45*time.Second {
			t.Errorf("the leased hold has %v left, want its lease (R3)", left)
		}
		b := connect(t, s)
		b.token(plain, "TTL", "6000")
		b.carrier.End(Expire)
		if !exists(t, rdb, plain) {
			t.Error("an expiring hold was released")
		}
		eventually(t, 2*time.Second, "it runs out", func() bool { return !exists(t, rdb, plain) })
		eventually(t, time.Second, "nothing is guarded", func() bool { return !a.guarded.Load() && !b.guarded.Load() })
		if s.Stats().Holds != 0 || len(a.losses)+len(b.losses) != 0 {
			t.Errorf("got stats %+v", s.Stats())
		}
	})
}

func TestR3LeaseIsNotRenewedAndEndsWithoutALoss(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		began := time.Now()
		a.token(key, "LEASE", "3000")
		eventually(t, 2*time.Second, "the lease is over", func() bool {
			s.Watchdog.CheckAll()
			return !exists(t, rdb, key)
		})
		if took := time.Since(began); took < 3*time.Second || took > soon {
			t.Errorf("a lease of 3 s lasted %v", took)
		}
		eventually(t, time.Second, "the hold is dropped", func() bool { return a.carrier.Holds() == 0 })
		want(t, a.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		if len(a.losses) != 0 {
			t.Error("the end of a lease was reported as a loss")
		}
	})
}

// TestR3HoldsAreRenewed: A hold is renewed, and LOCK.TTL never says more than Redis keeps it for.
func TestR3HoldsAreRenewed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{WatchdogTimeout: 12 * time.Second}), newKey()
		a := connect(t, s)
		a.token(key)
		for s.Stats().Renewals < 2 {
			asked := time.Now()
			left, err := strconv.Atoi(a.do("LOCK.TTL", key)[1:])
			// the TTL can have been at most this when LOCK.TTL was called
			redis := rdb.PTTL(t.Context(), key).Val() + time.Since(asked)
			if err != nil || left <= 0 || time.Duration(left)*time.Millisecond > redis+5*time.Millisecond {
				t.Fatalf("LOCK.TTL says %d ms, Redis %v", left, redis)
			}
			<-time.After(20 * time.Millisecond)
		}
		want(t, connect(t, s).do("LOCK.TTL", key), ":-2")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		want(t, a.do("LOCK.TTL", key), ":-2")
	})
}

// flushScripts makes every master forget its scripts.
func flushScripts(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	if err := each(rdb, func(c *redis.Client) error { return c.ScriptFlush(t.Context()).Err() }); err != nil {
		t.Fatal(err)
	}
}

// wantAnotherRenewal waits until the watchdog has renewed holds once more.
func wantAnotherRenewal(t *testing.T, s *Service) {
	t.Helper()
	before := s.Stats().Renewals
	s.Watchdog.CheckAll()
	eventually(t, time.Second, "holds are renewed", func() bool { return s.Stats().Renewals > before })
}

func TestR13ScriptsAreFoundAgainAfterFlush(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		flush := func() { flushScripts(t, rdb) }
		a, b := connect(t, s), connect(t, s)
		flush()
		a.token(key)
		flush()
		wantAnotherRenewal(t, s)
		reply := b.await(s, 1, key, "BLOCK", "0")
		flush()
		want(t, a.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, reply, 2*time.Second))
		flush()
		want(t, b.do("LOCK.RELEASE", key), ":1")
		if len(a.losses)+len(b.losses) != 0 {
			t.Error("a hold was lost")
		}
	})
}

func TestR13ReleasePassesAtMaxmemory(t *testing.T) {
	t.Parallel()
	takesLong(t)
	server := redistest.Start(t)
	rdb, ctx := dialServer(t, server.Addr), context.Background()
	s, key, full := leash(t, rdb, Config{WatchdogTimeout: 6 * time.Second}), newKey(), newKey()
	a, b, c := connect(t, s), connect(t, s), connect(t, s)
	for range 3 {
		a.token(key, "OWNER", "me")
	}
	b.token(full)
	reply := c.await(s, 1, full, "BLOCK", "0")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	want(t, connect(t, s).do("LOCK.ACQUIRE", newKey()), "-OOM command not allowed when used memory > 'maxmemory'.")
	<-time.After(7 * time.Second) // renewals continue
	want(t, a.do("LOCK.RELEASE", key), ":0")
	want(t, a.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), ":0")
	want(t, a.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), ":0")
	want(t, a.do("LOCK.RELEASE", key), ":1")
	want(t, b.do("LOCK.RELEASE", full), ":1")
	tokenOf(t, receive(t, reply, time.Second))
	want(t, c.do("LOCK.RELEASE", full), ":1")
}

func TestR26AcquireFindsItsOldHoldLost(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, ctx := leash(t, rdb, Config{}), leash(t, rdb, Config{}), context.Background()
		a, key := connect(t, s), newKey()
		a.token(key, "OWNER", "me")
		rdb.Del(ctx, key)
		want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+msgLost(key, "gone"))
		want(t, receive(t, a.losses, time.Second), key+" gone")
		if exists(t, rdb, key) {
			t.Error("a new hold was granted in the old one's place")
		}

		// a release by the owner through another Leash is no loss
		s = leash(t, rdb, Config{}, func(s *Service) { s.Events.Own = "nowhere" })
		b, key := connect(t, s), newKey()
		old := b.token(key, "OWNER", "me")
		want(t, connect(t, other).do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
		if token := b.token(key, "OWNER", "me"); token <= old || len(b.losses) != 0 || b.carrier.Holds() != 1 {
			t.Errorf("got token %d after %d, %d losses, %d holds", token, old, len(b.losses), b.carrier.Holds())
		}
		want(t, connect(t, other).do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
		want(t, b.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		if len(b.losses) != 0 {
			t.Error("a release was reported as a loss")
		}
	})
}

func TestR30ReleaseFindsAHoldThatHasMoved(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *Service) { s.Events.Own = "nowhere" }
		s, other := leash(t, rdb, Config{}, withoutEvents), leash(t, rdb, Config{})
		for _, by := range []string{"TOKEN", "OWNER"} {
			a, b, key := connect(t, s), connect(t, other), newKey()
			token := strconv.FormatInt(a.token(key, "OWNER", "me"), 10)
			tokenOf(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token))
			want(t, connect(t, s).do("LOCK.RELEASE", key, by, map[string]string{"TOKEN": token, "OWNER": "me"}[by]),
				":1")
			if exists(t, rdb, key) {
				t.Error("the lock is still there")
			}
			eventually(t, 3*time.Second, "the carrier forgets", func() bool { return b.carrier.Holds() == 0 })
			if len(b.losses) != 0 {
				t.Errorf("reported as a loss: %s", <-b.losses)
			}
		}
	})
}

// TestR30ReleaseElsewhereEndsTheTTL: LOCK.TTL is answered from memory. The event of a release
// through another Leash arrives long before the next renewal.
func TestR30ReleaseElsewhereEndsTheTTL(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := Config{WatchdogTimeout: time.Hour}
		s, other := leash(t, rdb, cfg), leash(t, rdb, cfg)
		for _, mode := range []string{"", "READ", "WRITE", "FAIR"} {
			a, b, key := connect(t, s), connect(t, other), newKey()
			args := []string{key}
			if mode != "" {
				args = append(args, mode)
			}
			token := strconv.FormatInt(a.token(args...), 10)
			if n := numberOf(t, a.do("LOCK.TTL", key)); n < 1 {
				t.Errorf("got %d ms", n)
			}
			want(t, b.do("LOCK.RELEASE", key, "TOKEN", token), ":1")
			eventually(t, time.Second, "it knows", func() bool { return a.do("LOCK.TTL", key) == ":-2" })
			if len(a.losses) != 0 {
				t.Error("reported as a loss")
			}
		}
	})
}
