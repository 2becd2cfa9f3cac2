package hold_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestReadWriteEmbedded(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := locktest.DialServer(t, m.Addr())
	s := locktest.Start(t, rdb, lockcmd.Config{})
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), "k"
	a.Token(key, "WRITE", "OWNER", "me")
	reply := b.Await(s, 1, key, "READ", "BLOCK", "0")
	a.Token(key, "READ", "OWNER", "me")
	a.Token(key, "READ", "OWNER", "me")
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key), "$-1")
	locktest.Want(t, a.Do("LOCK.RELEASE", key, "WRITE"), ":1")
	locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "WRITE", "OWNER", "me"), "-"+refusal.OtherMode)
	s.RenewAll(context.Background())
	if info := locktest.Fields(t, b.Do("LOCK.INFO", key)); info["mode"] != "read" || info["holds"] != "3" {
		t.Errorf("got %v", info)
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	locktest.WantNothing(t, rdb, key, a, b)
}

func TestR13ReadWriteScriptsAreFoundAgainAfterFlush(t *testing.T) {
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		flush := func() { locktest.FlushScripts(t, rdb) }
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		flush()
		a.Token(key, "WRITE", "OWNER", "me")
		flush()
		a.Token(key, "READ", "OWNER", "me")
		flush()
		locktest.WantAnotherRenewal(t, s)
		reply := b.Await(s, 1, key, "READ", "BLOCK", "0")
		flush()
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "WRITE"), ":1")
		locktest.TokenOf(t, locktest.Receive(t, reply, 2*time.Second))
		flush()
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		flush()
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothing(t, rdb, key, a, b)
	})
}

func TestR13ReadWriteReleasePassesAtMaxmemory(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(*testing.T))
	for _, mode := range []string{"READ", "WRITE"} {
		tests[mode] = func(t *testing.T) { readWriteReleasePassesAtMaxmemory(t, mode) }
	}
	locktest.RunParallel(t, tests)
}

func readWriteReleasePassesAtMaxmemory(t *testing.T, mode string) {
	rdb, ctx := locktest.DialServer(t, redistest.Start(t).Addr), context.Background()
	s, other := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.Start(t, rdb, lockcmd.Config{})
	key, down := locktest.NewKey(), locktest.NewKey()
	a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other)
	for range 4 {
		a.Token(key, mode, "OWNER", "me")
	}
	b.Token(down, "WRITE", "OWNER", "me")
	b.Token(down, "READ", "OWNER", "me")
	full, d, e := locktest.NewKey(), locktest.Connect(t, s), locktest.Connect(t, s)
	// an attempt of the waiter during the release would get an OOM error
	d.Token(full, "WRITE", "TTL", "60000")
	reply := e.Await(s, 1, full, mode, "BLOCK", "0")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	locktest.Want(t, c.Do("LOCK.ACQUIRE", locktest.NewKey(), mode),
		"-OOM command not allowed when used memory > 'maxmemory'.")
	locktest.Want(t, c.Do("LOCK.ACQUIRE", down, "READ"), "$-1")
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, mode, "OWNER", "me"),
		"-OOM command not allowed when used memory > 'maxmemory'.")
	locktest.Want(t, locktest.Count(rdb, key, map[string]string{"READ": "me", "WRITE": "me:write"}[mode]), "4")
	rdb.PExpire(ctx, key, 10*time.Second)
	s.Watchdog.CheckAll()
	locktest.Eventually(t, time.Second, "renewals continue",
		func() bool { return rdb.PTTL(ctx, key).Val() > 15*time.Second })
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
	locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), ":0")
	locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), ":0")
	locktest.Want(t, c.Do("LOCK.RELEASE", key, "OWNER", "me"), ":0")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	locktest.Want(t, b.Do("LOCK.RELEASE", down, "WRITE"), ":1")
	locktest.Want(t, b.Do("LOCK.RELEASE", down), ":1")
	locktest.Want(t, d.Do("LOCK.RELEASE", full), ":1") // and the grant with it
	locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
	locktest.Want(t, e.Do("LOCK.RELEASE", full), ":1")
	rdb.ConfigSet(ctx, "maxmemory", "0")
	locktest.WantNothing(t, rdb, key, a, b, d, e)
}

func TestR8ReadWriteLocksLiveInTheirDatabase(t *testing.T) {
	t.Parallel()
	in := locktest.Databases(t)
	s := locktest.Start(t, in(0), lockcmd.Config{WatchdogTimeout: 6 * time.Second})
	key := locktest.NewKey()
	a, b, c := locktest.ConnectTo(t, s, 0), locktest.ConnectTo(t, s, 3), locktest.ConnectTo(t, s, 3)
	a.Token(key, "READ")
	b.Token(key, "WRITE")
	reply := c.Start("LOCK.ACQUIRE", key, "READ", "BLOCK", "0")
	locktest.Eventually(t, 5*time.Second, "it waits",
		func() bool { return s.Waiting(script.Lock{DB: 3, Key: key}) == 1 })
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	<-time.After(6500 * time.Millisecond)
	if len(reply) != 0 || len(b.Losses) != 0 {
		t.Fatal("a lock of another database was taken for this one")
	}
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
	locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
	locktest.WantNothing(t, in(3), key, a, b, c)
}

func TestAttachExtendAndCheckReadAndWrite(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			context.Background()
		tests := make(map[string]func(*testing.T))
		for _, mode := range []string{"READ", "WRITE"} {
			tests[mode] = func(t *testing.T) {
				key := locktest.NewKey()
				a, b, c := locktest.Connect(t, s), locktest.Connect(t, other), locktest.Connect(t, s)
				var beside *locktest.Client
				if mode == "READ" {
					beside = locktest.Connect(t, s)
					beside.Token(key, "READ", "LEASE", "30000", "OWNER", "other")
				}
				n := a.Token(key, mode, "OWNER", "me", "LEASE", "60000")
				a.Token(key, mode, "OWNER", "me", "LEASE", "50000")
				token := strconv.FormatInt(n, 10)
				locktest.Want(t, c.Do("LOCK.CHECK", key, "TOKEN", token), ":1")
				locktest.Want(t, c.Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(n+1, 10)), ":0")

				locktest.Want(t, b.Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token, mode), ":"+token)
				locktest.Eventually(t, 3*time.Second, "its old carrier forgets",
					func() bool { return a.Carrier.Holds() == 0 })
				a.Carrier.End(lockcmd.Release)
				locktest.Want(t, b.Do("LOCK.RELEASE", key), ":0")
				locktest.Want(t, b.Do("LOCK.EXTEND", key, "90000"), ":90000")
				for _, k := range []string{key, script.RecordsKey(key)} {
					if left := rdb.PTTL(ctx, k).Val(); left < 80*time.Second {
						t.Errorf("%s: %s lasts %v", mode, k, left)
					}
				}
				locktest.Want(t, c.Do("LOCK.EXTEND", key, "6000", "TOKEN", token), ":6000")
				left := rdb.PTTL(ctx, key).Val()
				if most := map[string]time.Duration{"READ": 30 * time.Second,
					"WRITE": 6 * time.Second}[mode]; left > most ||
					left < 500*time.Millisecond {
					t.Errorf("%s lasts %v, want as long as its longest hold", mode, left)
				}
				if left := locktest.ReadTimeout(rdb, key, "me", 1); mode == "READ" &&
					(left > 6*time.Second || left < 500*time.Millisecond) {
					t.Errorf("the hold lasts %v", left)
				}
				locktest.Eventually(t, 3*time.Second, "the lease is over", func() bool {
					return c.Do("LOCK.CHECK", key, "TOKEN", token) == ":0"
				})
				locktest.Eventually(t, 3*time.Second, "the hold is dropped",
					func() bool { return b.Carrier.Holds() == 0 })
				if len(a.Losses)+len(b.Losses) != 0 {
					t.Error("the end of a lease was reported as a loss")
				}
				if mode == "READ" {
					locktest.Want(t, beside.Do("LOCK.RELEASE", key), ":1")
				}
				locktest.Eventually(t, time.Second, "nothing is left", func() bool {
					return !locktest.Exists(t, rdb, key) && !locktest.Exists(t, rdb, script.RecordsKey(key))
				})
				locktest.WantNothing(t, rdb, key, b, c)
				c.Token(key, mode, "OWNER", "me")
				locktest.Want(t, c.Do("LOCK.EXTEND", key, "1000"), "-"+refusal.IsRenewed)
				locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
			}
		}
		locktest.RunParallel(t, tests)
	})
}
