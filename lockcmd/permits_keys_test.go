package lockcmd

import (
	"context"
	"encoding/hex"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// These tests check the keys of a semaphore: TTLs, memory limits, migrations and Redisson.

// TestPermitsOfAKeyWithTTL: The semaphore's key expires. All its permits end.
func TestPermitsOfAKeyWithTTL(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		key, a := semaphore(t, s, 2), connect(t, s)
		rdb.PExpire(ctx, key, 20*time.Second)
		p := a.permit(key)
		for _, k := range []string{key, script.PermitsKey(key), script.RecordsKey(key)} {
			if left := rdb.PTTL(ctx, k).Val(); left < time.Second || left > 20*time.Second {
				t.Errorf("%s lives for %v, want 20 s", k, left)
			}
		}
		want(t, a.do("SEM.RELEASE", key, p), ":1")
		if left := rdb.PTTL(ctx, key).Val(); left < time.Second || left > 20*time.Second {
			t.Errorf("the semaphore lives for %v, want 20 s", left)
		}
	})
}

// TestRecordsOfReapedPermitsAreDeleted: Redisson reaps a permit whose lease has expired, and does
// not know Leash's record. Leash deletes the record.
func TestRecordsOfReapedPermitsAreDeleted(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		key, a := semaphore(t, s, 4), connect(t, s)
		for range 3 {
			a.permit(key, "LEASE", "60000")
		}
		rdb.Del(ctx, script.PermitsKey(key))
		rdb.IncrBy(ctx, key, 3)
		a.permit(key)
		if n := records(rdb, key); n != 1 {
			t.Errorf("got %d records, want that of the permit that is out", n)
		}
	})
}

func TestR13PermitsAreReturnedAtTheMemoryLimit(t *testing.T) {
	t.Parallel()
	takesLong(t)
	rdb, ctx := dialServer(t, redistest.Start(t).Addr), context.Background()
	s := leash(t, rdb, Config{WatchdogTimeout: 6 * time.Second})
	key, a := semaphore(t, s, 5), connect(t, s)
	held := a.permits(3, key, "COUNT", "3")
	other := connect(t, leash(t, rdb, Config{}))
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	want(t, a.do("SEM.ACQUIRE", key), "-OOM command not allowed when used memory > 'maxmemory'.")
	<-time.After(6500 * time.Millisecond) // renewals continue
	want(t, a.do("SEM.RELEASE", key, held[0]), ":1")
	want(t, other.do("SEM.RELEASE", key, held[1]), ":1")
	a.carrier.End(Release)
	other.wantSemaphoreInfo(key, 5, 5, 0)
	if len(a.losses) != 0 {
		t.Errorf("reported as a loss: %s", <-a.losses)
	}
}

func TestPermitsAreNoLocks(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 2), connect(t, s)
		p := a.permit(key)
		want(t, a.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		want(t, a.do("LOCK.TTL", key), ":-2")
		want(t, a.do("LOCK.ACQUIRE", key, "BLOCK", "10"),
			"-WRONGTYPE Operation against a key holding the wrong kind of value")
		a.token(p)
		want(t, a.do("SEM.ACQUIRE", p), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		want(t, a.do("SEM.RELEASE", p, p), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		want(t, a.do("SEM.RELEASE", key), ":1")
	})
}

func TestR8PermitsLieInTheirDatabase(t *testing.T) {
	t.Parallel()
	in := databases(t)
	s := leash(t, in(0), Config{Database: in, WatchdogTimeout: 6 * time.Second})
	key, a := semaphore(t, s, 1), connectTo(t, s, 0)
	b := connectTo(t, s, 3)
	want(t, b.do("SEM.INIT", key, "1"), ":1")
	p, q := a.permit(key), b.permit(key)
	want(t, a.do("SEM.RELEASE", key, q), "-"+refusal.NoPermit)
	<-time.After(6500 * time.Millisecond) // both are renewed
	want(t, b.do("SEM.RELEASE", key, q), ":1")
	want(t, a.do("SEM.RELEASE", key, p), ":1")
}

// renewsPermits checks that a Leash renews the permits of some keys when asked.
func (s *Service) renewsPermits(t *testing.T, permits map[string]string) {
	t.Helper()
	before := make(map[string]float64)
	for key, p := range permits {
		before[key] = permitScore(t, s.Redis.Redis, key, p)
	}
	<-time.After(2 * time.Millisecond) // scores have a resolution of 1 ms
	s.RenewAll(t.Context())
	for key, p := range permits {
		if permitScore(t, s.Redis.Redis, key, p) <= before[key] {
			t.Errorf("the permit of %s was not renewed", key)
		}
	}
}

// TestR14PermitsInASlotInMigration: While a semaphore's keys are on two nodes, its permits are
// kept. None is granted or released.
func TestR14PermitsInASlotInMigration(t *testing.T) {
	t.Parallel()
	rdb := dialCluster(t, sharedCluster(t).Addrs()...)
	s := leash(t, rdb, Config{UpstreamTimeout: shortTimeout})
	tag := "{" + newKey() + "}"
	a, c := connect(t, s), connect(t, leash(t, rdb, Config{}))
	permits := make(map[string]string)
	for i := range 3 {
		key := tag + strconv.Itoa(i)
		want(t, a.do("SEM.INIT", key, "3"), ":1")
		a.permit(key, "LEASE", "60000")
		permits[key] = a.permit(key)
	}
	m, finish := startMigration(t, tag)
	if err := m.MoveKey(tag+"0", script.PermitsKey(tag+"1"), script.RecordsKey(tag+"2")); err != nil {
		t.Fatal(err)
	}
	for key := range permits {
		want(t, c.do("SEM.ACQUIRE", key), "$-1")
	}
	s.renewsPermits(t, permits)
	if len(a.losses) != 0 {
		t.Fatalf("lost %s", <-a.losses)
	}
	want(t, a.do("SEM.RELEASE", tag+"0", permits[tag+"0"]), "-"+refusal.ReleaseLater)
	finish()
	eventually(t, 10*time.Second, "it is released", func() bool {
		_, available, _, _ := c.semaphoreInfo(tag + "0")
		return available == 2
	})
	want(t, a.do("SEM.RELEASE", tag+"1"), ":1")
	a.carrier.End(Release)
	for key := range permits {
		c.wantSemaphoreInfo(key, 3, 2, 1)
	}
}

// TestPermitLeaseOfRedisson: A Java service calls updateLeaseTime on a permit that Leash granted.
func TestPermitLeaseOfRedisson(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 2), connect(t, s)
		for _, p := range []string{a.permit(key, "LEASE", "6000"), a.permit(key)} {
			raw, _ := hex.DecodeString(p)
			rdb.ZAdd(t.Context(), script.PermitsKey(key), redis.Z{Score: 922337203685477, Member: string(raw)})
		}
		s.RenewAll(t.Context())
		<-time.After(6500 * time.Millisecond)
		if a.carrier.Holds() != 2 || len(a.losses) != 0 {
			t.Error("a prolonged permit was forgotten, or lost")
		}
		want(t, a.do("SEM.RELEASE", key), ":1")
		want(t, a.do("SEM.RELEASE", key), ":1")
	})
}

func TestPermitsSurviveAScriptFlush(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 2), connect(t, s)
		flush := func() {
			if err := each(rdb, func(c *redis.Client) error { return c.ScriptFlush(t.Context()).Err() }); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			p := a.permit(key)
			flush()
			s.renewsPermits(t, map[string]string{key: p})
		}
		flush()
		want(t, a.do("SEM.RELEASE", key), ":1")
		flush()
		a.carrier.End(Release)
		connect(t, s).wantSemaphoreInfo(key, 2, 2, 0)
		if len(a.losses) != 0 {
			t.Errorf("lost %s", <-a.losses)
		}
	})
}
