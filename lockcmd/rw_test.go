package lockcmd

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestReadersShareAndWritersDoNot(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b, c := connect(t, s), connect(t, s), connect(t, other)
		first := a.token(key, "READ", "OWNER", "r1")
		second := b.token(key, "READ")
		third := c.token(key, "READ")
		if !(first < second && second < third) {
			t.Errorf("got tokens %d, %d, %d, want rising ones", first, second, third)
		}
		want(t, c.do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		want(t, c.do("LOCK.ACQUIRE", key), "$-1")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		want(t, b.do("LOCK.RELEASE", key), ":1")
		want(t, a.do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		want(t, a.do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(third, 10), "READ"), ":1")
		if n := rdb.Exists(context.Background(), key, script.RecordsKey(key)).Val(); n != 0 {
			t.Errorf("%d keys are still there", n)
		}
		if fourth := a.token(key, "WRITE"); fourth <= third {
			t.Errorf("got token %d after %d", fourth, third)
		}
		want(t, b.do("LOCK.ACQUIRE", key, "READ"), "$-1")
		want(t, b.do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		want(t, b.do("LOCK.ACQUIRE", key), "$-1")
		want(t, a.do("LOCK.RELEASE", key, "READ"), "-"+refusal.NotHeld)
		want(t, a.do("LOCK.RELEASE", key, "WRITE"), ":1")
		eventually(t, 3*time.Second, "all is forgotten", func() bool {
			return s.Stats().Holds+other.Stats().Holds == 0
		})
		if exists(t, rdb, key) || len(a.losses)+len(b.losses)+len(c.losses) != 0 {
			t.Error("something is left, or was lost")
		}
	})
}

// inRedis returns the fields of a read-write lock in Redis.
func inRedis(t testing.TB, rdb redis.UniversalClient, key string) map[string]string {
	t.Helper()
	fields, err := rdb.HGetAll(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// readTimeout returns how long the i-th count of an owner's READ hold lasts.
func readTimeout(rdb redis.UniversalClient, key, owner string, i int) time.Duration {
	return rdb.PTTL(context.Background(), script.SuffixName(key, owner+":rwlock_timeout:"+strconv.Itoa(i))).Val()
}

// wantNothing checks that nothing is left of a read-write lock and its holds.
func wantNothing(t testing.TB, rdb redis.UniversalClient, key string, conns ...*conn) {
	t.Helper()
	if n := rdb.Exists(context.Background(), key, script.RecordsKey(key)).Val(); n != 0 {
		t.Errorf("%d keys are left: %v", n, inRedis(t, rdb, key))
	}
	for _, c := range conns {
		if c.carrier.Holds() != 0 {
			t.Errorf("a connection has %d holds", c.carrier.Holds())
		}
		if len(c.losses) != 0 {
			t.Errorf("lost %s", <-c.losses)
		}
	}
}

func TestReadWriteLayoutIsRedissons(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		for _, key := range []string{newKey(), "{" + newKey() + "}:x"} {
			a := connect(t, s)
			token := a.token(key, "READ", "OWNER", "u:1")
			a.token(key, "READ", "OWNER", "u:1", "LEASE", "20000")
			if got := inRedis(t, rdb, key); len(got) != 2 || got["mode"] != "read" || got["u:1"] != "2" {
				t.Errorf("got %v", got)
			}
			base := key
			if !strings.HasPrefix(key, "{") {
				base = "{" + key + "}"
			}
			for i, most := range []time.Duration{30 * time.Second, 20 * time.Second} {
				name := base + ":u:1:rwlock_timeout:" + strconv.Itoa(i+1)
				left, value := rdb.PTTL(ctx, name).Val(), rdb.Get(ctx, name).Val()
				if left > most || left < most-5*time.Second || value != "1" {
					t.Errorf("got %s = %q for %v", name, value, left)
				}
			}
			records := inRedis(t, rdb, base+":leash")
			if r, ok := script.ParseRecord(records["u:1"]); !ok || len(records) != 1 || r.Token != token ||
				r.Carrier != a.carrier.Name {
				t.Errorf("got records %q", records)
			}
			if left, lock := rdb.PTTL(ctx, base+":leash").Val(),
				rdb.PTTL(ctx, key).Val(); left < 25*time.Second || lock < 25*time.Second {
				t.Errorf("the records last %v, the lock %v", left, lock)
			}
			want(t, a.do("LOCK.RELEASE", key), ":0")
			want(t, a.do("LOCK.RELEASE", key), ":1")
			if n := rdb.Exists(ctx, base+":u:1:rwlock_timeout:1", base+":u:1:rwlock_timeout:2").Val(); n != 0 {
				t.Errorf("%d timeout keys are left", n)
			}
			wantNothing(t, rdb, key, a)

			token = a.token(key, "WRITE", "OWNER", "u:1")
			if got := inRedis(t, rdb, key); len(got) != 2 || got["mode"] != "write" || got["u:1:write"] != "1" {
				t.Errorf("got %v", got)
			}
			if r, ok := script.ParseRecord(inRedis(t, rdb, base+":leash")["u:1:write"]); !ok || r.Token != token {
				t.Errorf("got record %+v", r)
			}
			want(t, a.do("LOCK.RELEASE", key, "ALL"), ":1")
			wantNothing(t, rdb, key, a)
		}
	})
}

func TestR4ReadAndWriteHoldsAreEnteredAgain(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for _, mode := range []string{"READ", "WRITE"} {
			key := newKey()
			a, b, c := connect(t, s), connect(t, s), connect(t, other)
			token := a.token(key, mode, "OWNER", "me", "ID", "r1")
			for _, id := range []string{"r1", "r2", "r2", "r3"} {
				if again := a.token(key, mode, "OWNER", "me", "ID", id, "BLOCK", "0"); again != token {
					t.Fatalf("got token %d on entering again, want %d", again, token)
				}
			}
			for _, elsewhere := range []*conn{b, c} {
				want(t, elsewhere.do("LOCK.ACQUIRE", key, mode, "OWNER", "me"), "-"+refusal.Elsewhere)
				want(t, elsewhere.do("LOCK.ACQUIRE", key, mode, "OWNER", "me", "BLOCK", "0", "ID", "r2"),
					"-"+refusal.Elsewhere)
			}
			// within one Leash
			if again := b.token(key, mode, "OWNER", "me", "ID", "r3"); again != token {
				t.Fatalf("got token %d when repeated elsewhere, want %d", again, token)
			}
			// to another one
			if again := c.token(key, mode, "OWNER", "me", "ID", "r3", "BLOCK", "0"); again != token {
				t.Fatalf("got token %d when repeated on another Leash, want %d", again, token)
			}
			eventually(t, 3*time.Second, "the old carriers forget", func() bool {
				return a.carrier.Holds()+b.carrier.Holds() == 0
			})
			want(t, c.do("LOCK.RELEASE", key), ":0")
			want(t, a.do("LOCK.RELEASE", key, "OWNER", "me", mode), ":0") // from any connection
			want(t, b.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "last"), ":1")
			want(t, c.do("LOCK.RELEASE", key, "OWNER", "me", "ID", "last"), ":1")
			eventually(t, 3*time.Second, "its carrier forgets", func() bool { return c.carrier.Holds() == 0 })
			wantNothing(t, rdb, key, a, b, c)
		}
	})
}

func TestR5ReadWriteDeadlocks(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, s)
		a.token(key, "READ", "OWNER", "x")
		a.token(key, "READ", "OWNER", "y", "BLOCK", "0") // no deadlock, because both read
		a.token(key, "READ", "BLOCK", "0")
		want(t, a.do("LOCK.ACQUIRE", key, "WRITE", "BLOCK", "0"), "-"+refusal.Deadlock)
		want(t, a.do("LOCK.ACQUIRE", key, "WRITE", "OWNER", "z", "BLOCK", "0"), "-"+refusal.Deadlock)
		want(t, a.do("LOCK.ACQUIRE", key, "BLOCK", "0"), "-"+refusal.Deadlock)

		// A reader may overtake a waiting writer only if otherwise each would wait for the other.
		reply := b.await(s, 1, key, "WRITE", "BLOCK", "0")
		a.token(key, "READ", "OWNER", "v", "BLOCK", "0")
		a.token(key, "READ", "OWNER", "x", "BLOCK", "0")
		for range 4 {
			want(t, a.do("LOCK.RELEASE", key, "ALL"), ":1")
		}
		tokenOf(t, receive(t, reply, 3*time.Second))
		want(t, b.do("LOCK.ACQUIRE", key, "READ", "BLOCK", "0"), "-"+refusal.Deadlock)
		want(t, b.do("LOCK.ACQUIRE", key, "READ"), "$-1")
		want(t, b.do("LOCK.ACQUIRE", key, "BLOCK", "0"), "-"+refusal.Deadlock)
		want(t, b.do("LOCK.RELEASE", key), ":1")
		wantNothing(t, rdb, key, a, b)
	})
}

// TestR18WriterIsNotOvertakenByNewRequests: A waiting writer is overtaken only by a repeated
// request that already holds the lock.
func TestR18WriterIsNotOvertakenByNewRequests(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		a, w, b, c := connect(t, s), connect(t, s), connect(t, s), connect(t, s)
		a.token(key, "READ", "OWNER", "a", "ID", "1")
		writer := w.await(s, 1, key, "WRITE", "BLOCK", "0")
		reader := b.await(s, 2, key, "READ", "OWNER", "b", "ID", "1", "BLOCK", "0")
		// repeated on another connection
		c.token(key, "READ", "OWNER", "a", "ID", "1", "BLOCK", "0")
		want(t, c.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, writer, soon))
		want(t, w.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, reader, soon))
		want(t, b.do("LOCK.RELEASE", key), ":1")
		wantNothing(t, rdb, key, a, b, c, w)
	})
}

func TestR9UpgradeIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, other)
		token := a.token(key, "READ", "OWNER", "me")
		for _, c := range []*conn{a, b} {
			want(t, c.do("LOCK.ACQUIRE", key, "WRITE", "OWNER", "me"), "-"+refusal.OtherMode)
			want(t, c.do("LOCK.ACQUIRE", key, "WRITE", "OWNER", "me", "BLOCK", "0"), "-"+refusal.OtherMode)
			want(t, c.do("LOCK.ACQUIRE", key, "OWNER", "me", "BLOCK", "0"), "-"+refusal.OtherMode)
		}
		if r, _ := script.ParseRecord(inRedis(t, rdb, script.RecordsKey(key))["me"]); r.Token != token {
			t.Errorf("got record %+v", r)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		wantNothing(t, rdb, key, a, b)
	})
}

func TestR9KindsDoNotMix(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, s)
		a.token(key, "OWNER", "me") // plain
		for _, mode := range []string{"READ", "WRITE"} {
			want(t, b.do("LOCK.ACQUIRE", key, mode), "$-1")
			want(t, b.do("LOCK.ACQUIRE", key, mode, "BLOCK", "50"), "$-1")
			want(t, b.do("LOCK.ACQUIRE", key, mode, "OWNER", "you"), "$-1")
			want(t, a.do("LOCK.ACQUIRE", key, mode, "OWNER", "me", "BLOCK", "0"), "-"+refusal.OtherMode)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		for _, mode := range []string{"READ", "WRITE"} {
			a.token(key, mode, "OWNER", "me")
			want(t, b.do("LOCK.ACQUIRE", key), "$-1")
			want(t, b.do("LOCK.ACQUIRE", key, "BLOCK", "50"), "$-1")
			want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.OtherMode)
			want(t, a.do("LOCK.RELEASE", key), ":1")
		}
		wantNothing(t, rdb, key, a, b)
		rdb.HSet(context.Background(), key, "mode", "upgrade") // an unknown mode
		for _, mode := range []string{"READ", "WRITE", "FAIR"} {
			want(t, b.do("LOCK.ACQUIRE", key, mode), "$-1")
			want(t, b.do("LOCK.ACQUIRE", key, mode, "OWNER", "me"), "$-1")
		}
		want(t, b.do("LOCK.ACQUIRE", key), "$-1")
		rdb.Set(context.Background(), key, "text", 0)
		for _, mode := range []string{"READ", "WRITE"} {
			want(t, b.do("LOCK.ACQUIRE", key, mode),
				"-WRONGTYPE Operation against a key holding the wrong kind of value")
		}
	})
}

func TestDowngrade(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries), newKey()
		a, b, c, d := connect(t, s), connect(t, s), connect(t, other), connect(t, other)
		receiveEvents(t, rdb, s, other)
		wrote := a.token(key, "WRITE", "OWNER", "me")
		want(t, b.do("LOCK.ACQUIRE", key, "READ", "OWNER", "me"), "-"+refusal.Elsewhere)
		near := b.await(s, 1, key, "READ", "BLOCK", "0")
		far := c.await(other, 1, key, "READ", "BLOCK", "0")
		reads := a.token(key, "READ", "OWNER", "me")
		if reads <= wrote || a.carrier.Holds() != 2 {
			t.Errorf("got tokens %d, %d and %d holds", wrote, reads, a.carrier.Holds())
		}
		a.token(key, "WRITE", "OWNER", "me") // acquired again, with a READ hold in between
		want(t, a.do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(wrote, 10)), ":0")
		want(t, d.do("LOCK.ACQUIRE", key, "READ"), "$-1")
		if len(near)+len(far) != 0 {
			t.Fatal("a reader got in beside a writer")
		}
		// waiting readers are woken, unlike with Redisson
		want(t, a.do("LOCK.RELEASE", key, "WRITE"), ":1")
		tokenOf(t, woken(t, near))
		tokenOf(t, woken(t, far))
		want(t, d.do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		want(t, a.do("LOCK.ACQUIRE", key, "WRITE", "OWNER", "me"), "-"+refusal.OtherMode)
		for _, reader := range []*conn{a, b, c} {
			want(t, reader.do("LOCK.RELEASE", key), ":1")
		}
		wantNothing(t, rdb, key, a, b, c, d)
		a.token(key, "WRITE", "OWNER", "me")
		a.token(key, "READ", "OWNER", "me")
		want(t, a.do("LOCK.RELEASE", key, "READ"), ":1") // the other order
		want(t, d.do("LOCK.ACQUIRE", key, "READ"), "$-1")
		a.token(key, "READ", "OWNER", "me")
		a.carrier.End(Release)
		wantNothing(t, rdb, key, a)
	})
}

func TestInfoOfReadersAndWriters(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b, c, j := connect(t, s), connect(t, s), connect(t, other), newJavaRW(t, rdb, key, "1")
		info := func(want map[string]string) {
			t.Helper()
			for _, asked := range []*conn{a, c} {
				got := fields(t, asked.do("LOCK.INFO", key))
				for name, value := range want {
					if got[name] != value {
						t.Errorf("got %s = %q, want %q of %v", name, got[name], value, got)
					}
				}
			}
		}
		j.in(j.write(30 * time.Second))
		j.in(j.write(30 * time.Second))
		info(map[string]string{"mode": "write", "owner": j.owner, "holds": "2", "token": "", "leash": "",
			"client": "", "since-ms": ""})
		j.unwrite()
		j.unwrite()
		want(t, a.do("LOCK.INFO", key), "$-1")

		j.in(j.read(40 * time.Second))
		info(map[string]string{"mode": "read", "owner": j.owner, "holds": "1", "token": ""})
		first := strconv.FormatInt(a.token(key, "READ", "OWNER", "z"), 10)
		a.token(key, "READ", "OWNER", "z")
		c.token(key, "READ", "OWNER", "a")
		info(map[string]string{"mode": "read", "owner": "z", "token": first, "holds": "4", "leash": s.Holds.Leash,
			"client": "127.0.0.1:5000 test"})
		if left, _ := strconv.Atoi(fields(t, a.do("LOCK.INFO", key))["ttl-ms"]); left < 35_000 || left > 40_000 {
			t.Errorf("got %d ms left, want as long as java's lasts", left)
		}
		j.unread()
		want(t, a.do("LOCK.RELEASE", key, "ALL"), ":1")
		want(t, c.do("LOCK.RELEASE", key), ":1")

		wrote := strconv.FormatInt(b.token(key, "WRITE", "OWNER", "me"), 10)
		b.token(key, "READ", "OWNER", "me")
		info(map[string]string{"mode": "write", "owner": "me", "token": wrote, "holds": "1"})
		reply := a.await(s, 1, key, "READ", "BLOCK", "0")
		want(t, fields(t, b.do("LOCK.INFO", key))["waiters"], "1")
		want(t, b.do("LOCK.RELEASE", key, "WRITE"), ":1")
		tokenOf(t, receive(t, reply, 3*time.Second))
		info(map[string]string{"mode": "read", "owner": "me", "holds": "2"})
		want(t, a.do("LOCK.RELEASE", key), ":1")
		want(t, b.do("LOCK.RELEASE", key), ":1")
		want(t, a.do("LOCK.INFO", key), "$-1")
		wantNothing(t, rdb, key, a, b, c)
	})
}
