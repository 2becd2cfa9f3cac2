package release_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR30ReleaseFromAnyConnection(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		for _, where := range []*lockcmd.Service{s, other} {
			for _, by := range []string{"TOKEN", "OWNER"} {
				key := locktest.NewKey()
				a, b := locktest.Connect(t, s), locktest.Connect(t, where)
				token := strconv.FormatInt(a.Token(key, "OWNER", "me"), 10)
				proof := map[string]string{"TOKEN": token, "OWNER": "me"}[by]
				locktest.Want(t, b.Do("LOCK.RELEASE", key, "TOKEN", "5"), "-"+refusal.NotHeld)
				locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "you"), "-"+refusal.NotHeld)
				locktest.Want(t, b.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
				locktest.Want(t, b.Do("LOCK.RELEASE", key, by, proof), ":1")
				locktest.Want(t, b.Do("LOCK.RELEASE", key, by, proof), "-"+refusal.NotHeld)
				if locktest.Exists(t, rdb, key) {
					t.Error("the lock is still there")
				}
				locktest.Eventually(t, 3*time.Second, "the carrier forgets",
					func() bool { return a.Carrier.Holds() == 0 })
				if len(a.Losses) != 0 {
					t.Errorf("%s: reported as a loss: %s", by, <-a.Losses)
				}
				n, _ := strconv.ParseInt(token, 10, 64)
				if laid := locktest.Exists(t, rdb,
					script.TombstoneKey(key, n, a.Carrier.Name)); laid != (where == other) {
					t.Errorf("tombstone written: %v", laid)
				}
			}
		}
	})
}

func TestR30TombstoneReplacesALostEvent(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *lockcmd.Service) { s.Events.Own = "nowhere" }
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, withoutEvents),
			locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		a.Token(key, "OWNER", "me")
		a.Token(key, "OWNER", "me")
		locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "me"), ":0")
		locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
		s.Watchdog.CheckAll()
		locktest.Eventually(t, 3*time.Second, "the carrier forgets", func() bool { return a.Carrier.Holds() == 0 })
		if len(a.Losses) != 0 {
			t.Error("a release was reported as a loss")
		}
	})
}

func TestR27ForcedEndIsReportedAsLoss(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		gone, overwritten, kept := locktest.NewKey(), locktest.NewKey(), locktest.NewKey()
		a.Token(gone)
		b.Token(overwritten)
		c := locktest.Connect(t, s)
		c.Token(kept)
		rdb.Del(ctx, gone)
		rdb.Set(ctx, overwritten, "poison", 0) // R25: does not affect the others
		rdb.PExpire(ctx, kept, 10*time.Second)
		s.Watchdog.CheckAll()
		locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), gone+" gone")
		locktest.Want(t, locktest.Receive(t, b.Losses, time.Second), overwritten+" gone")
		locktest.Eventually(t, time.Second, "the innocent hold is renewed", func() bool {
			return rdb.PTTL(ctx, kept).Val() > 15*time.Second
		})
		if len(c.Losses) != 0 {
			t.Errorf("lost %s", <-c.Losses)
		}
		if got := s.Stats().Losses["gone"]; got != 2 {
			t.Errorf("got %d losses counted, want 2", got)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", gone), "-"+refusal.NotHeld)
	})
}

func TestR28EndOfConnection(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		plain, leased, entered := locktest.NewKey(), locktest.NewKey(), locktest.NewKey()
		a := locktest.Connect(t, s)
		a.Token(plain)
		a.Token(leased, "LEASE", "90000")
		a.Token(entered, "OWNER", "me")
		a.Token(entered, "OWNER", "me")
		a.Carrier.End(lockcmd.Release)
		locktest.Eventually(t, time.Second, "the holds end", func() bool {
			return !locktest.Exists(t, rdb, plain) && !locktest.Exists(t, rdb, entered)
		})
		if left := rdb.PTTL(ctx, leased).Val(); left < 45*time.Second {
			t.Errorf("the leased hold has %v left, want its lease (R3)", left)
		}
		b := locktest.Connect(t, s)
		b.Token(plain, "TTL", "6000")
		b.Carrier.End(lockcmd.Expire)
		if !locktest.Exists(t, rdb, plain) {
			t.Error("an expiring hold was released")
		}
		locktest.Eventually(t, 2*time.Second, "it runs out", func() bool { return !locktest.Exists(t, rdb, plain) })
		locktest.Eventually(t, time.Second, "nothing is guarded",
			func() bool { return !a.Guarded.Load() && !b.Guarded.Load() })
		if s.Stats().Holds != 0 || len(a.Losses)+len(b.Losses) != 0 {
			t.Errorf("got stats %+v", s.Stats())
		}
	})
}

func TestR3LeaseIsNotRenewedAndEndsWithoutALoss(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a := locktest.Connect(t, s)
		began := time.Now()
		a.Token(key, "LEASE", "3000")
		locktest.Eventually(t, 2*time.Second, "the lease is over", func() bool {
			s.Watchdog.CheckAll()
			return !locktest.Exists(t, rdb, key)
		})
		if took := time.Since(began); took < 3*time.Second || took > locktest.Soon {
			t.Errorf("a lease of 3 s lasted %v", took)
		}
		locktest.Eventually(t, time.Second, "the hold is dropped", func() bool { return a.Carrier.Holds() == 0 })
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		if len(a.Losses) != 0 {
			t.Error("the end of a lease was reported as a loss")
		}
	})
}

// TestR3HoldsAreRenewed: A hold is renewed, and LOCK.TTL never says more than Redis keeps it for.
func TestR3HoldsAreRenewed(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 12 * time.Second}), locktest.NewKey()
		a := locktest.Connect(t, s)
		a.Token(key)
		for s.Stats().Renewals < 2 {
			asked := time.Now()
			left, err := strconv.Atoi(a.Do("LOCK.TTL", key)[1:])
			// the TTL can have been at most this when LOCK.TTL was called
			redis := rdb.PTTL(t.Context(), key).Val() + time.Since(asked)
			if err != nil || left <= 0 || time.Duration(left)*time.Millisecond > redis+5*time.Millisecond {
				t.Fatalf("LOCK.TTL says %d ms, Redis %v", left, redis)
			}
			<-time.After(20 * time.Millisecond)
		}
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.TTL", key), ":-2")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, a.Do("LOCK.TTL", key), ":-2")
	})
}

func TestR13ScriptsAreFoundAgainAfterFlush(t *testing.T) {
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		flush := func() { locktest.FlushScripts(t, rdb) }
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		flush()
		a.Token(key)
		flush()
		locktest.WantAnotherRenewal(t, s)
		reply := b.Await(s, 1, key, "BLOCK", "0")
		flush()
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, reply, 2*time.Second))
		flush()
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		if len(a.Losses)+len(b.Losses) != 0 {
			t.Error("a hold was lost")
		}
	})
}

func TestR13ReleasePassesAtMaxmemory(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	server := redistest.Start(t)
	rdb, ctx := locktest.DialServer(t, server.Addr), context.Background()
	s, key, full := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 6 * time.Second}), locktest.NewKey(),
		locktest.NewKey()
	a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
	for range 3 {
		a.Token(key, "OWNER", "me")
	}
	b.Token(full)
	reply := c.Await(s, 1, full, "BLOCK", "0")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	locktest.Want(t, locktest.Connect(t, s).Do("LOCK.ACQUIRE", locktest.NewKey()),
		"-OOM command not allowed when used memory > 'maxmemory'.")
	<-time.After(7 * time.Second) // renewals continue
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
	locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), ":0")
	locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), ":0")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	locktest.Want(t, b.Do("LOCK.RELEASE", full), ":1")
	locktest.TokenOf(t, locktest.Receive(t, reply, time.Second))
	locktest.Want(t, c.Do("LOCK.RELEASE", full), ":1")
}

func TestR26AcquireFindsItsOldHoldLost(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			context.Background()
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(key, "OWNER", "me")
		rdb.Del(ctx, key)
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+locktest.MsgLost(key, "gone"))
		locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" gone")
		if locktest.Exists(t, rdb, key) {
			t.Error("a new hold was granted in the old one's place")
		}

		// a release by the owner through another Leash is no loss
		s = locktest.Start(t, rdb, lockcmd.Config{}, func(s *lockcmd.Service) { s.Events.Own = "nowhere" })
		b, key := locktest.Connect(t, s), locktest.NewKey()
		old := b.Token(key, "OWNER", "me")
		locktest.Want(t, locktest.Connect(t, other).Do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
		if token := b.Token(key, "OWNER", "me"); token <= old || len(b.Losses) != 0 || b.Carrier.Holds() != 1 {
			t.Errorf("got token %d after %d, %d losses, %d holds", token, old, len(b.Losses), b.Carrier.Holds())
		}
		locktest.Want(t, locktest.Connect(t, other).Do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
		locktest.Want(t, b.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		if len(b.Losses) != 0 {
			t.Error("a release was reported as a loss")
		}
	})
}

func TestR30ReleaseFindsAHoldThatHasMoved(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *lockcmd.Service) { s.Events.Own = "nowhere" }
		s, other := locktest.Start(t, rdb, lockcmd.Config{}, withoutEvents), locktest.Start(t, rdb, lockcmd.Config{})
		for _, by := range []string{"TOKEN", "OWNER"} {
			a, b, key := locktest.Connect(t, s), locktest.Connect(t, other), locktest.NewKey()
			token := strconv.FormatInt(a.Token(key, "OWNER", "me"), 10)
			locktest.TokenOf(t, b.Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token))
			locktest.Want(t, locktest.Connect(t, s).Do("LOCK.RELEASE", key, by,
				map[string]string{"TOKEN": token, "OWNER": "me"}[by]),
				":1")
			if locktest.Exists(t, rdb, key) {
				t.Error("the lock is still there")
			}
			locktest.Eventually(t, 3*time.Second, "the carrier forgets", func() bool { return b.Carrier.Holds() == 0 })
			if len(b.Losses) != 0 {
				t.Errorf("reported as a loss: %s", <-b.Losses)
			}
		}
	})
}

// TestR30ReleaseElsewhereEndsTheTTL: LOCK.TTL is answered from memory. The event of a release
// through another Leash arrives long before the next renewal.
func TestR30ReleaseElsewhereEndsTheTTL(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := lockcmd.Config{WatchdogTimeout: time.Hour}
		s, other := locktest.Start(t, rdb, cfg), locktest.Start(t, rdb, cfg)
		for _, mode := range []string{"", "READ", "WRITE", "FAIR"} {
			a, b, key := locktest.Connect(t, s), locktest.Connect(t, other), locktest.NewKey()
			args := []string{key}
			if mode != "" {
				args = append(args, mode)
			}
			token := strconv.FormatInt(a.Token(args...), 10)
			if n := locktest.NumberOf(t, a.Do("LOCK.TTL", key)); n < 1 {
				t.Errorf("got %d ms", n)
			}
			locktest.Want(t, b.Do("LOCK.RELEASE", key, "TOKEN", token), ":1")
			locktest.Eventually(t, time.Second, "it knows", func() bool { return a.Do("LOCK.TTL", key) == ":-2" })
			if len(a.Losses) != 0 {
				t.Error("reported as a loss")
			}
		}
	})
}
