package acquire_test

import (
	"context"
	"encoding/hex"
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

// These tests check the keys of a semaphore: TTLs, memory limits, migrations and Redisson.

// TestPermitsOfAKeyWithTTL: The semaphore's key expires. All its permits end.
func TestPermitsOfAKeyWithTTL(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		key, a := locktest.Semaphore(t, s, 2), locktest.Connect(t, s)
		rdb.PExpire(ctx, key, 20*time.Second)
		p := a.Permit(key)
		for _, k := range []string{key, script.PermitsKey(key), script.RecordsKey(key)} {
			if left := rdb.PTTL(ctx, k).Val(); left < time.Second || left > 20*time.Second {
				t.Errorf("%s lives for %v, want 20 s", k, left)
			}
		}
		locktest.Want(t, a.Do("SEM.RELEASE", key, p), ":1")
		if left := rdb.PTTL(ctx, key).Val(); left < time.Second || left > 20*time.Second {
			t.Errorf("the semaphore lives for %v, want 20 s", left)
		}
	})
}

// TestRecordsOfReapedPermitsAreDeleted: Redisson reaps a permit whose lease has expired, and does
// not know Leash's record. Leash deletes the record.
func TestRecordsOfReapedPermitsAreDeleted(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		key, a := locktest.Semaphore(t, s, 4), locktest.Connect(t, s)
		for range 3 {
			a.Permit(key, "LEASE", "60000")
		}
		rdb.Del(ctx, script.PermitsKey(key))
		rdb.IncrBy(ctx, key, 3)
		a.Permit(key)
		if n := locktest.Records(rdb, key); n != 1 {
			t.Errorf("got %d records, want that of the permit that is out", n)
		}
	})
}

func TestR13PermitsAreReturnedAtTheMemoryLimit(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	rdb, ctx := locktest.DialServer(t, redistest.Start(t).Addr), context.Background()
	s := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 6 * time.Second})
	key, a := locktest.Semaphore(t, s, 5), locktest.Connect(t, s)
	held := a.Permits(3, key, "COUNT", "3")
	other := locktest.Connect(t, locktest.Start(t, rdb, lockcmd.Config{}))
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	locktest.Want(t, a.Do("SEM.ACQUIRE", key), "-OOM command not allowed when used memory > 'maxmemory'.")
	<-time.After(6500 * time.Millisecond) // renewals continue
	locktest.Want(t, a.Do("SEM.RELEASE", key, held[0]), ":1")
	locktest.Want(t, other.Do("SEM.RELEASE", key, held[1]), ":1")
	a.Carrier.End(lockcmd.Release)
	other.WantSemaphoreInfo(key, 5, 5, 0)
	if len(a.Losses) != 0 {
		t.Errorf("reported as a loss: %s", <-a.Losses)
	}
}

func TestPermitsAreNoLocks(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		key, a := locktest.Semaphore(t, s, 2), locktest.Connect(t, s)
		p := a.Permit(key)
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		locktest.Want(t, a.Do("LOCK.TTL", key), ":-2")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "BLOCK", "10"),
			"-WRONGTYPE Operation against a key holding the wrong kind of value")
		a.Token(p)
		locktest.Want(t, a.Do("SEM.ACQUIRE", p), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		locktest.Want(t, a.Do("SEM.RELEASE", p, p),
			"-WRONGTYPE Operation against a key holding the wrong kind of value")
		locktest.Want(t, a.Do("SEM.RELEASE", key), ":1")
	})
}

func TestR8PermitsLieInTheirDatabase(t *testing.T) {
	t.Parallel()
	in := locktest.Databases(t)
	s := locktest.Start(t, in(0), lockcmd.Config{WatchdogTimeout: 6 * time.Second})
	key, a := locktest.Semaphore(t, s, 1), locktest.ConnectTo(t, s, 0)
	b := locktest.ConnectTo(t, s, 3)
	locktest.Want(t, b.Do("SEM.INIT", key, "1"), ":1")
	p, q := a.Permit(key), b.Permit(key)
	locktest.Want(t, a.Do("SEM.RELEASE", key, q), "-"+refusal.NoPermit)
	<-time.After(6500 * time.Millisecond) // both are renewed
	locktest.Want(t, b.Do("SEM.RELEASE", key, q), ":1")
	locktest.Want(t, a.Do("SEM.RELEASE", key, p), ":1")
}

// wantPermitsRenewed checks that a Leash renews the permits of some keys when asked.
func wantPermitsRenewed(t *testing.T, s *lockcmd.Service, permits map[string]string) {
	t.Helper()
	before := make(map[string]float64)
	for key, p := range permits {
		before[key] = permitScore(t, locktest.RedisOf(s), key, p)
	}
	<-time.After(2 * time.Millisecond) // scores have a resolution of 1 ms
	s.RenewAll(t.Context())
	for key, p := range permits {
		if permitScore(t, locktest.RedisOf(s), key, p) <= before[key] {
			t.Errorf("the permit of %s was not renewed", key)
		}
	}
}

// TestR14PermitsInASlotInMigration: While a semaphore's keys are on two nodes, its permits are
// kept. None is granted or released.
func TestR14PermitsInASlotInMigration(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialCluster(t, redistest.SharedCluster(t).Addrs()...)
	s := locktest.Start(t, rdb, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	tag := "{" + locktest.NewKey() + "}"
	a, c := locktest.Connect(t, s), locktest.Connect(t, locktest.Start(t, rdb, lockcmd.Config{}))
	permits := make(map[string]string)
	for i := range 3 {
		key := tag + strconv.Itoa(i)
		locktest.Want(t, a.Do("SEM.INIT", key, "3"), ":1")
		a.Permit(key, "LEASE", "60000")
		permits[key] = a.Permit(key)
	}
	m, finish := locktest.StartMigration(t, tag)
	if err := m.MoveKey(tag+"0", script.PermitsKey(tag+"1"), script.RecordsKey(tag+"2")); err != nil {
		t.Fatal(err)
	}
	for key := range permits {
		locktest.Want(t, c.Do("SEM.ACQUIRE", key), "$-1")
	}
	wantPermitsRenewed(t, s, permits)
	if len(a.Losses) != 0 {
		t.Fatalf("lost %s", <-a.Losses)
	}
	locktest.WantPrefix(t, a.Do("SEM.RELEASE", tag+"0", permits[tag+"0"]), "-"+refusal.ReleaseLater+": TRYAGAIN ")
	finish()
	locktest.Eventually(t, 10*time.Second, "it is released", func() bool {
		_, available, _, _ := c.SemaphoreInfo(tag + "0")
		return available == 2
	})
	locktest.Want(t, a.Do("SEM.RELEASE", tag+"1"), ":1")
	a.Carrier.End(lockcmd.Release)
	for key := range permits {
		c.WantSemaphoreInfo(key, 3, 2, 1)
	}
}

// TestPermitLeaseOfRedisson: A Java service calls updateLeaseTime on a permit that Leash granted.
func TestPermitLeaseOfRedisson(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		key, a := locktest.Semaphore(t, s, 2), locktest.Connect(t, s)
		for _, p := range []string{a.Permit(key, "LEASE", "6000"), a.Permit(key)} {
			raw, _ := hex.DecodeString(p)
			rdb.ZAdd(t.Context(), script.PermitsKey(key), redis.Z{Score: 922337203685477, Member: string(raw)})
		}
		s.RenewAll(t.Context())
		<-time.After(6500 * time.Millisecond)
		if a.Carrier.Holds() != 2 || len(a.Losses) != 0 {
			t.Error("a prolonged permit was forgotten, or lost")
		}
		locktest.Want(t, a.Do("SEM.RELEASE", key), ":1")
		locktest.Want(t, a.Do("SEM.RELEASE", key), ":1")
	})
}

func TestPermitsSurviveAScriptFlush(t *testing.T) {
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		key, a := locktest.Semaphore(t, s, 2), locktest.Connect(t, s)
		flush := func() {
			flush := func(c *redis.Client) error { return c.ScriptFlush(t.Context()).Err() }
			if err := locktest.Each(rdb, flush); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			p := a.Permit(key)
			flush()
			wantPermitsRenewed(t, s, map[string]string{key: p})
		}
		flush()
		locktest.Want(t, a.Do("SEM.RELEASE", key), ":1")
		flush()
		a.Carrier.End(lockcmd.Release)
		locktest.Connect(t, s).WantSemaphoreInfo(key, 2, 2, 0)
		if len(a.Losses) != 0 {
			t.Errorf("lost %s", <-a.Losses)
		}
	})
}
