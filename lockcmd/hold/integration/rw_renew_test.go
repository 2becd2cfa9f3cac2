package hold_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/script"
)

// TestR12ReadAndWriteHoldsAreRenewed: Every part of a hold is renewed, and each of an owner's two
// holds separately. Redisson stops the renewal of a write lock when its owner has released a read
// lock.
func TestR12ReadAndWriteHoldsAreRenewed(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx, key := locktest.Start(t, rdb, lockcmd.Config{}), t.Context(), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		wantRenewed := func(counts int) {
			t.Helper()
			keys := []string{key, script.RecordsKey(key)}
			for i := 1; i <= counts; i++ {
				keys = append(keys, script.SuffixName(key, fmt.Sprint("me:rwlock_timeout:", i)))
			}
			for _, k := range keys {
				rdb.PExpire(ctx, k, 10*time.Second)
			}
			locktest.Eventually(t, time.Second, "all keys are renewed", func() bool {
				s.Watchdog.CheckAll()
				late := func(k string) bool { return rdb.PTTL(ctx, k).Val() < 15*time.Second }
				return !slices.ContainsFunc(keys, late)
			})
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		}
		a.Token(key, "WRITE", "OWNER", "me")
		a.Token(key, "READ", "OWNER", "me")
		a.Token(key, "READ", "OWNER", "me")
		wantRenewed(2)
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "READ", "ALL"), ":1")
		wantRenewed(0)
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "READ"), "$-1") // still a write lock
		a.Token(key, "READ", "OWNER", "me")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "WRITE"), ":1")
		wantRenewed(1)
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothing(t, rdb, key, a, b)
	})
}

func TestR12ReadReleaseKeepsOtherReaders(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		a, b, j := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewJavaRW(t, rdb, key, "1")
		a.Token(key, "READ", "OWNER", "me", "LEASE", "5000")
		a.Token(key, "READ", "OWNER", "me", "LEASE", "60000")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0") // Redisson's numbering removes the second one
		if left := locktest.ReadTimeout(rdb, key, "me", 1); left < 50*time.Second {
			t.Errorf("a release shortened the hold to %v", left)
		}
		if left := locktest.ReadTimeout(rdb, key, "me", 2); left > 0 {
			t.Errorf("the timeout key of the released count has %v left", left)
		}
		b.Token(key, "READ", "OWNER", "you", "TTL", "20000")
		j.In(j.Read(30 * time.Second))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if left := rdb.PTTL(ctx, key).Val(); left < 25*time.Second || left > 30*time.Second {
			t.Errorf("the lock lasts %v, want as long as java's", left)
		}
		if j.Unread() != int64(0) {
			t.Error("java did not see ours")
		}
		if left := rdb.PTTL(ctx, key).Val(); left < 15*time.Second || left > 20*time.Second {
			t.Errorf("the lock lasts %v, want as long as ours", left)
		}
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothing(t, rdb, key, a, b)
	})
}

func TestR12TTLOfReadWriteHoldsIsNeverLowered(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		for _, mode := range []string{"READ", "WRITE"} {
			key := locktest.NewKey()
			a := locktest.Connect(t, s)
			long := func(after string) {
				t.Helper()
				for _, k := range []string{key, script.RecordsKey(key)} {
					if left := rdb.PTTL(ctx, k).Val(); left < 55*time.Second {
						t.Errorf("%s: %s lowered the TTL of %s to %v", mode, after, k, left)
					}
				}
				if left := locktest.ReadTimeout(rdb, key, "me", 1); mode == "READ" && left < 55*time.Second {
					t.Errorf("%s lowered the hold's TTL to %v", after, left)
				}
			}
			a.Token(key, mode, "OWNER", "me", "LEASE", "60000")
			a.Token(key, mode, "OWNER", "me", "LEASE", "1000")
			long("entering again")
			a.Token(key, mode, "OWNER", "me", "TTL", "5000") // renewed from now on
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
			long("a release")
			s.RenewAll(ctx)
			long("a renewal")
			locktest.Want(t, a.Do("LOCK.RELEASE", key, "ALL"), ":1")
			locktest.WantNothing(t, rdb, key, a)
		}
	})
}

// TestR12JavaRenewalDoesNotShortenAHold: A Java reader sets the lock's TTL to a shorter value and
// then dies. The READ hold of a Leash is not shortened.
func TestR12JavaRenewalDoesNotShortenAHold(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 20 * time.Second}), context.Background()
		for _, option := range []string{"TTL", "LEASE"} {
			key := locktest.NewKey()
			a, j := locktest.Connect(t, s), locktest.NewJavaRW(t, rdb, key, "1")
			a.Token(key, "READ", option, "20000")
			j.In(j.Read(time.Second))
			j.RenewReads(time.Second)
			if left := rdb.PTTL(ctx, key).Val(); left > time.Second {
				t.Fatalf("java's renewal left %v", left)
			}
			s.RenewAll(ctx)
			if left := rdb.PTTL(ctx, key).Val(); left < 15*time.Second {
				t.Errorf("%s: the lock lasts %v, less than ours", option, left)
			}
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		}
	})
}

// TestR12HoldsSurviveShorterRenewalsOfJava: A Java reader renews with a shorter TTL than Leash and
// then dies. The READ hold of a Leash survives.
func TestR12HoldsSurviveShorterRenewalsOfJava(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 12 * time.Second}), context.Background()
		locktest.OnTime(t, func() error {
			key := locktest.NewKey()
			a, j := locktest.Connect(t, s), locktest.NewJavaRW(t, rdb, key, "1")
			defer a.Carrier.End(lockcmd.Release)
			a.Token(key, "READ")
			j.In(j.Read(2 * time.Second))
			j.RenewReads(2 * time.Second)
			s.RenewAll(ctx) // detects the Java reader
			for range 4 {
				<-time.After(667 * time.Millisecond)
				j.RenewReads(2 * time.Second)
			}
			<-time.After(2500 * time.Millisecond)
			if !locktest.Exists(t, rdb, key) || len(a.Losses) != 0 {
				return errors.New("the lock has gone with java")
			}
			before := s.Stats().Renewals
			s.RenewAll(ctx) // the only reader again, so renewals need not be frequent
			<-time.After(2 * time.Second)
			if n := s.Stats().Renewals - before; n > 8 {
				return fmt.Errorf("got %d renewals of a lock of 12 s in 2 s", n)
			}
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			locktest.WantNothing(t, rdb, key, a)
			return nil
		})
	})
}
