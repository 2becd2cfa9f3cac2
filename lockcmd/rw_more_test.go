package lockcmd

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestReadWriteEmbedded(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := dialServer(t, m.Addr())
	s := leash(t, rdb, Config{})
	a, b, key := connect(t, s), connect(t, s), "k"
	a.token(key, "WRITE", "OWNER", "me")
	reply := b.await(s, 1, key, "READ", "BLOCK", "0")
	a.token(key, "READ", "OWNER", "me")
	a.token(key, "READ", "OWNER", "me")
	want(t, a.do("LOCK.ACQUIRE", key), "$-1")
	want(t, a.do("LOCK.RELEASE", key, "WRITE"), ":1")
	tokenOf(t, receive(t, reply, 3*time.Second))
	want(t, a.do("LOCK.ACQUIRE", key, "WRITE", "OWNER", "me"), "-"+refusal.OtherMode)
	s.RenewAll(context.Background())
	if info := fields(t, b.do("LOCK.INFO", key)); info["mode"] != "read" || info["holds"] != "3" {
		t.Errorf("got %v", info)
	}
	want(t, a.do("LOCK.RELEASE", key), ":0")
	want(t, a.do("LOCK.RELEASE", key), ":1")
	want(t, b.do("LOCK.RELEASE", key), ":1")
	wantNothing(t, rdb, key, a, b)
}

func TestR13ReadWriteScriptsAreFoundAgainAfterFlush(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		flush := func() { flushScripts(t, rdb) }
		a, b := connect(t, s), connect(t, s)
		flush()
		a.token(key, "WRITE", "OWNER", "me")
		flush()
		a.token(key, "READ", "OWNER", "me")
		flush()
		wantAnotherRenewal(t, s)
		reply := b.await(s, 1, key, "READ", "BLOCK", "0")
		flush()
		want(t, a.do("LOCK.RELEASE", key, "WRITE"), ":1")
		tokenOf(t, receive(t, reply, 2*time.Second))
		flush()
		want(t, a.do("LOCK.RELEASE", key), ":1")
		flush()
		want(t, b.do("LOCK.RELEASE", key), ":1")
		wantNothing(t, rdb, key, a, b)
	})
}

func TestR13ReadWriteReleasePassesAtMaxmemory(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(*testing.T))
	for _, mode := range []string{"READ", "WRITE"} {
		tests[mode] = func(t *testing.T) { readWriteReleasePassesAtMaxmemory(t, mode) }
	}
	runParallel(t, tests)
}

func readWriteReleasePassesAtMaxmemory(t *testing.T, mode string) {
	rdb, ctx := dialServer(t, redistest.Start(t).Addr), context.Background()
	s, other := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{})
	key, down := newKey(), newKey()
	a, b, c := connect(t, s), connect(t, s), connect(t, other)
	for range 4 {
		a.token(key, mode, "OWNER", "me")
	}
	b.token(down, "WRITE", "OWNER", "me")
	b.token(down, "READ", "OWNER", "me")
	full, d, e := newKey(), connect(t, s), connect(t, s)
	// an attempt of the waiter during the release would get an OOM error
	d.token(full, "WRITE", "TTL", "60000")
	reply := e.await(s, 1, full, mode, "BLOCK", "0")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	want(t, c.do("LOCK.ACQUIRE", newKey(), mode), "-OOM command not allowed when used memory > 'maxmemory'.")
	want(t, c.do("LOCK.ACQUIRE", down, "READ"), "$-1")
	want(t, a.do("LOCK.ACQUIRE", key, mode, "OWNER", "me"), "-OOM command not allowed when used memory > 'maxmemory'.")
	want(t, count(rdb, key, map[string]string{"READ": "me", "WRITE": "me:write"}[mode]), "4")
	rdb.PExpire(ctx, key, 10*time.Second)
	s.Watchdog.CheckAll()
	eventually(t, time.Second, "renewals continue", func() bool { return rdb.PTTL(ctx, key).Val() > 15*time.Second })
	want(t, a.do("LOCK.RELEASE", key), ":0")
	want(t, a.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), ":0")
	want(t, a.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "r"), ":0")
	want(t, c.do("LOCK.RELEASE", key, "OWNER", "me"), ":0")
	want(t, a.do("LOCK.RELEASE", key), ":1")
	want(t, b.do("LOCK.RELEASE", down, "WRITE"), ":1")
	want(t, b.do("LOCK.RELEASE", down), ":1")
	want(t, d.do("LOCK.RELEASE", full), ":1") // and the grant with it
	tokenOf(t, receive(t, reply, 3*time.Second))
	want(t, e.do("LOCK.RELEASE", full), ":1")
	rdb.ConfigSet(ctx, "maxmemory", "0")
	wantNothing(t, rdb, key, a, b, d, e)
}

func TestR8ReadWriteLocksLiveInTheirDatabase(t *testing.T) {
	t.Parallel()
	in := databases(t)
	s := leash(t, in(0), Config{Database: in, WatchdogTimeout: 6 * time.Second})
	key := newKey()
	a, b, c := connectTo(t, s, 0), connectTo(t, s, 3), connectTo(t, s, 3)
	a.token(key, "READ")
	b.token(key, "WRITE")
	reply := c.start("LOCK.ACQUIRE", key, "READ", "BLOCK", "0")
	eventually(t, 5*time.Second, "it waits", func() bool { return s.Waiting(script.Lock{DB: 3, Key: key}) == 1 })
	want(t, a.do("LOCK.RELEASE", key), ":1")
	<-time.After(6500 * time.Millisecond)
	if len(reply) != 0 || len(b.losses) != 0 {
		t.Fatal("a lock of another database was taken for this one")
	}
	want(t, b.do("LOCK.RELEASE", key), ":1")
	tokenOf(t, receive(t, reply, 5*time.Second))
	want(t, c.do("LOCK.RELEASE", key), ":1")
	wantNothing(t, in(3), key, a, b, c)
}

func TestAttachExtendAndCheckReadAndWrite(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, ctx := leash(t, rdb, Config{}), leash(t, rdb, Config{}), context.Background()
		tests := make(map[string]func(*testing.T))
		for _, mode := range []string{"READ", "WRITE"} {
			tests[mode] = func(t *testing.T) {
				key := newKey()
				a, b, c := connect(t, s), connect(t, other), connect(t, s)
				var beside *conn
				if mode == "READ" {
					beside = connect(t, s)
					beside.token(key, "READ", "LEASE", "30000", "OWNER", "other")
				}
				n := a.token(key, mode, "OWNER", "me", "LEASE", "60000")
				a.token(key, mode, "OWNER", "me", "LEASE", "50000")
				token := strconv.FormatInt(n, 10)
				want(t, c.do("LOCK.CHECK", key, "TOKEN", token), ":1")
				want(t, c.do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(n+1, 10)), ":0")

				want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token, mode), ":"+token)
				eventually(t, 3*time.Second, "its old carrier forgets", func() bool { return a.carrier.Holds() == 0 })
				a.carrier.End(Release)
				want(t, b.do("LOCK.RELEASE", key), ":0")
				want(t, b.do("LOCK.EXTEND", key, "90000"), ":90000")
				for _, k := range []string{key, script.RecordsKey(key)} {
					if left := rdb.PTTL(ctx, k).Val(); left < 80*time.Second {
						t.Errorf("%s: %s lasts %v", mode, k, left)
					}
				}
				want(t, c.do("LOCK.EXTEND", key, "6000", "TOKEN", token), ":6000")
				left := rdb.PTTL(ctx, key).Val()
				if most := map[string]time.Duration{"READ": 30 * time.Second, "WRITE": 6 * time.Second}[mode]; left > most ||
					left < 500*time.Millisecond {
					t.Errorf("%s lasts %v, want as long as its longest hold", mode, left)
				}
				if left := readTimeout(rdb, key, "me", 1); mode == "READ" &&
					(left > 6*time.Second || left < 500*time.Millisecond) {
					t.Errorf("the hold lasts %v", left)
				}
				eventually(t, 3*time.Second, "the lease is over", func() bool {
					return c.do("LOCK.CHECK", key, "TOKEN", token) == ":0"
				})
				eventually(t, 3*time.Second, "the hold is dropped", func() bool { return b.carrier.Holds() == 0 })
				if len(a.losses)+len(b.losses) != 0 {
					t.Error("the end of a lease was reported as a loss")
				}
				if mode == "READ" {
					want(t, beside.do("LOCK.RELEASE", key), ":1")
				}
				eventually(t, time.Second, "nothing is left", func() bool {
					return !exists(t, rdb, key) && !exists(t, rdb, script.RecordsKey(key))
				})
				wantNothing(t, rdb, key, b, c)
				c.token(key, mode, "OWNER", "me")
				want(t, c.do("LOCK.EXTEND", key, "1000"), "-"+refusal.IsRenewed)
				want(t, c.do("LOCK.RELEASE", key), ":1")
			}
		}
		runParallel(t, tests)
	})
}
