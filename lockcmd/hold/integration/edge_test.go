package hold_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// TestR24ACheckEndsNoLockWithoutATTL: Somebody removed the TTL of a lease in Redis. The watchdog's
// check must not end it.
func TestR24ACheckEndsNoLockWithoutATTL(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		s := locktest.Start(t, rdb, lockcmd.Config{})
		for _, option := range []string{"", "WRITE", "READ"} {
			a, key := locktest.Connect(t, s), locktest.NewKey()
			args := []string{key, "LEASE", "60000"}
			if option != "" {
				args = append(args, option)
			}
			a.Token(args...)
			if !rdb.Persist(ctx, key).Val() {
				t.Fatal("not made to last")
			}
			results := s.Stats().Renewals
			locktest.Eventually(t, 5*time.Second, "the watchdog checks it", func() bool {
				s.Watchdog.CheckAll()
				return s.Stats().Renewals > results+2
			})
			if !locktest.Exists(t, rdb, key) || len(a.Losses) != 0 {
				t.Errorf("%q: a check has ended the lock", option)
			}
		}
	})
}

// TestR7RepeatOfAnUndoneAcquireCounts: An acquire with an ID was undone. When it is repeated with
// the same ID, it counts.
func TestR7RepeatOfAnUndoneAcquireCounts(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		for _, m := range []*script.Mode{script.Plain, script.Read, script.Write} {
			a, key := locktest.Connect(t, s), locktest.NewKey()
			args := []string{key, "OWNER", "me"}
			if m != script.Plain {
				args = append(args, m.Option)
			}
			a.Token(args...)
			first := s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true })
			if !first.LockRequests(s.Redis.Deadline()) {
				t.Fatal("the request lock is taken")
			}
			again := a.AcquireOf(m, key, "me")
			again.Token, again.Grant.ID = first.Token, "again"
			if r := a.Send(again); r.Outcome != script.AcquireGranted {
				t.Fatalf("got %v", r)
			}
			s.Redis.Undo(script.UndoArgs{
				Lock: locktest.LockOf(key), Mode: m, Owner: "me", Carrier: a.Carrier.Name, Acquire: again.Grant.Request,
				Number: a.Carrier.Requests.Add(1),
			})
			first.UnlockRequests()
			a.Token(append(args, "ID", "again")...)
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		}
	})
}

// TestR21NoHandOverWithoutAToken: The token counter of a lock is broken. A release still ends the
// lock, and the waiters get an error.
func TestR21NoHandOverWithoutAToken(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		for _, counter := range []string{"9007199254740991", "list"} {
			for _, option := range []string{"", "WRITE"} {
				s := locktest.Start(t, rdb, lockcmd.Config{})
				a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
				args := []string{key}
				if option != "" {
					args = append(args, option)
				}
				a.Token(args...)
				waiting := b.Await(s, 1, key, append(args[1:], "BLOCK", "0")...)
				rdb.Del(ctx, script.TokenKey(key))
				if counter == "list" {
					rdb.RPush(ctx, script.TokenKey(key), "x")
				} else {
					rdb.Set(ctx, script.TokenKey(key), counter, 0)
				}
				locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
				if got := locktest.Receive(t, waiting, 5*time.Second); got[0] != '-' {
					t.Errorf("%s %s: got %q, want an error", counter, option, got)
				}
				if locktest.Exists(t, rdb, key) {
					t.Errorf("%s %s: the lock is still there: %v", counter, option, rdb.HGetAll(ctx, key))
				}
			}
		}
	})
}

// TestR27ExtendLeavesTheMarkOfABreak: EXTEND leaves the mark of a BREAK in place, because the
// holder is about to be told.
func TestR27ExtendLeavesTheMarkOfABreak(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		s := locktest.Start(t, rdb, lockcmd.Config{UpstreamTimeout: 3 * time.Second})
		tests := make(map[string]func(*testing.T))
		for _, option := range []string{"", "WRITE", "READ"} {
			tests[option] = func(t *testing.T) {
				a, key := locktest.Connect(t, s), locktest.NewKey()
				args := []string{key, "LEASE", "60000"}
				if option != "" {
					args = append(args, option)
				}
				token := a.Token(args...)
				mark := script.TombstoneKey(key, token, a.Carrier.Name)
				rdb.Set(ctx, mark, event.Broken, time.Minute)
				locktest.Want(t, locktest.Connect(t, s).Do("LOCK.EXTEND", key, "30000", "TOKEN",
					strconv.FormatInt(token, 10)),
					"-"+refusal.NotAccepted)
				if got := rdb.Get(ctx, mark).Val(); got != event.Broken {
					t.Errorf("the mark says %q", got)
				}
			}
		}
		locktest.RunParallel(t, tests)
	})
}

// TestMaxHoldDoesNotLimitPermits: --max-hold does not shorten the lease of a permit.
func TestMaxHoldDoesNotLimitPermits(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key := locktest.Start(t, rdb, lockcmd.Config{MaxHold: 2 * time.Second}), locktest.NewKey()
	a := locktest.Connect(t, s)
	locktest.Want(t, a.Do("SEM.INIT", key, "1"), ":1")
	if got := a.Do("SEM.ACQUIRE", key, "LEASE", "600000"); got[0] != '$' || got == "$-1" {
		t.Fatalf("got %q", got)
	}
	ends := rdb.ZRangeWithScores(context.Background(), script.SuffixName(key, "timeout"), 0, -1).Val()
	if len(ends) != 1 || time.Until(time.UnixMilli(int64(ends[0].Score))) < 500*time.Second {
		t.Errorf("got %v, want one that ends in 600 s", ends)
	}
}
