package hold_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestReadersShareAndWritersDoNot(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other)
		first := a.Token(key, "READ", "OWNER", "r1")
		second := b.Token(key, "READ")
		third := c.Token(key, "READ")
		if !(first < second && second < third) {
			t.Errorf("got tokens %d, %d, %d, want rising ones", first, second, third)
		}
		locktest.Want(t, c.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		locktest.Want(t, c.Do("LOCK.ACQUIRE", key), "$-1")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(third, 10), "READ"), ":1")
		if n := rdb.Exists(context.Background(), key, script.RecordsKey(key)).Val(); n != 0 {
			t.Errorf("%d keys are still there", n)
		}
		if fourth := a.Token(key, "WRITE"); fourth <= third {
			t.Errorf("got token %d after %d", fourth, third)
		}
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "READ"), "$-1")
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key), "$-1")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "READ"), "-"+refusal.NotHeld)
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "WRITE"), ":1")
		locktest.Eventually(t, 3*time.Second, "all is forgotten", func() bool {
			return s.Stats().Holds+other.Stats().Holds == 0
		})
		if locktest.Exists(t, rdb, key) || len(a.Losses)+len(b.Losses)+len(c.Losses) != 0 {
			t.Error("something is left, or was lost")
		}
	})
}

func TestReadWriteLayoutIsRedissons(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		for _, key := range []string{locktest.NewKey(), "{" + locktest.NewKey() + "}:x"} {
			a := locktest.Connect(t, s)
			token := a.Token(key, "READ", "OWNER", "u:1")
			a.Token(key, "READ", "OWNER", "u:1", "LEASE", "20000")
			if got := locktest.InRedis(t, rdb, key); len(got) != 2 || got["mode"] != "read" || got["u:1"] != "2" {
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
			records := locktest.InRedis(t, rdb, base+":leash")
			if r, ok := script.ParseRecord(records["u:1"]); !ok || len(records) != 1 || r.Token != token ||
				r.Carrier != a.Carrier.Name {
				t.Errorf("got records %q", records)
			}
			if left, lock := rdb.PTTL(ctx, base+":leash").Val(),
				rdb.PTTL(ctx, key).Val(); left < 25*time.Second || lock < 25*time.Second {
				t.Errorf("the records last %v, the lock %v", left, lock)
			}
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			if n := rdb.Exists(ctx, base+":u:1:rwlock_timeout:1", base+":u:1:rwlock_timeout:2").Val(); n != 0 {
				t.Errorf("%d timeout keys are left", n)
			}
			locktest.WantNothing(t, rdb, key, a)

			token = a.Token(key, "WRITE", "OWNER", "u:1")
			if got := locktest.InRedis(t, rdb, key); len(got) != 2 || got["mode"] != "write" ||
				got["u:1:write"] != "1" {
				t.Errorf("got %v", got)
			}
			if r, ok := script.ParseRecord(locktest.InRedis(t, rdb, base+":leash")["u:1:write"]); !ok ||
				r.Token != token {
				t.Errorf("got record %+v", r)
			}
			locktest.Want(t, a.Do("LOCK.RELEASE", key, "ALL"), ":1")
			locktest.WantNothing(t, rdb, key, a)
		}
	})
}

func TestR4ReadAndWriteHoldsAreEnteredAgain(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		for _, mode := range []string{"READ", "WRITE"} {
			key := locktest.NewKey()
			a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other)
			token := a.Token(key, mode, "OWNER", "me", "ID", "r1")
			for _, id := range []string{"r1", "r2", "r2", "r3"} {
				if again := a.Token(key, mode, "OWNER", "me", "ID", id, "BLOCK", "0"); again != token {
					t.Fatalf("got token %d on entering again, want %d", again, token)
				}
			}
			for _, elsewhere := range []*locktest.Client{b, c} {
				locktest.Want(t, elsewhere.Do("LOCK.ACQUIRE", key, mode, "OWNER", "me"), "-"+refusal.Elsewhere)
				locktest.Want(t, elsewhere.Do("LOCK.ACQUIRE", key, mode, "OWNER", "me", "BLOCK", "0", "ID", "r2"),
					"-"+refusal.Elsewhere)
			}
			// within one Leash
			if again := b.Token(key, mode, "OWNER", "me", "ID", "r3"); again != token {
				t.Fatalf("got token %d when repeated elsewhere, want %d", again, token)
			}
			// to another one
			if again := c.Token(key, mode, "OWNER", "me", "ID", "r3", "BLOCK", "0"); again != token {
				t.Fatalf("got token %d when repeated on another Leash, want %d", again, token)
			}
			locktest.Eventually(t, 3*time.Second, "the old carriers forget", func() bool {
				return a.Carrier.Holds()+b.Carrier.Holds() == 0
			})
			locktest.Want(t, c.Do("LOCK.RELEASE", key), ":0")
			locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "me", mode), ":0") // from any connection
			locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "last"), ":1")
			locktest.Want(t, c.Do("LOCK.RELEASE", key, "OWNER", "me", "ID", "last"), ":1")
			locktest.Eventually(t, 3*time.Second, "its carrier forgets", func() bool { return c.Carrier.Holds() == 0 })
			locktest.WantNothing(t, rdb, key, a, b, c)
		}
	})
}

func TestR5ReadWriteDeadlocks(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key, "READ", "OWNER", "x")
		a.Token(key, "READ", "OWNER", "y", "BLOCK", "0") // no deadlock, because both read
		a.Token(key, "READ", "BLOCK", "0")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "WRITE", "BLOCK", "0"), "-"+refusal.Deadlock)
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "WRITE", "OWNER", "z", "BLOCK", "0"), "-"+refusal.Deadlock)
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "BLOCK", "0"), "-"+refusal.Deadlock)

		// A reader may overtake a waiting writer only if otherwise each would wait for the other.
		reply := b.Await(s, 1, key, "WRITE", "BLOCK", "0")
		a.Token(key, "READ", "OWNER", "v", "BLOCK", "0")
		a.Token(key, "READ", "OWNER", "x", "BLOCK", "0")
		for range 4 {
			locktest.Want(t, a.Do("LOCK.RELEASE", key, "ALL"), ":1")
		}
		locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "READ", "BLOCK", "0"), "-"+refusal.Deadlock)
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "READ"), "$-1")
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "BLOCK", "0"), "-"+refusal.Deadlock)
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothing(t, rdb, key, a, b)
	})
}

// TestR18WriterIsNotOvertakenByNewRequests: A waiting writer is overtaken only by a repeated
// request that already holds the lock.
func TestR18WriterIsNotOvertakenByNewRequests(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, w, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key, "READ", "OWNER", "a", "ID", "1")
		writer := w.Await(s, 1, key, "WRITE", "BLOCK", "0")
		reader := b.Await(s, 2, key, "READ", "OWNER", "b", "ID", "1", "BLOCK", "0")
		// repeated on another connection
		c.Token(key, "READ", "OWNER", "a", "ID", "1", "BLOCK", "0")
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, writer, locktest.Soon))
		locktest.Want(t, w.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, reader, locktest.Soon))
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothing(t, rdb, key, a, b, c, w)
	})
}

func TestR9UpgradeIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		token := a.Token(key, "READ", "OWNER", "me")
		for _, c := range []*locktest.Client{a, b} {
			locktest.Want(t, c.Do("LOCK.ACQUIRE", key, "WRITE", "OWNER", "me"), "-"+refusal.OtherMode)
			locktest.Want(t, c.Do("LOCK.ACQUIRE", key, "WRITE", "OWNER", "me", "BLOCK", "0"), "-"+refusal.OtherMode)
			locktest.Want(t, c.Do("LOCK.ACQUIRE", key, "OWNER", "me", "BLOCK", "0"), "-"+refusal.OtherMode)
		}
		if r, _ := script.ParseRecord(locktest.InRedis(t, rdb, script.RecordsKey(key))["me"]); r.Token != token {
			t.Errorf("got record %+v", r)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothing(t, rdb, key, a, b)
	})
}

func TestR9KindsDoNotMix(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key, "OWNER", "me") // plain
		for _, mode := range []string{"READ", "WRITE"} {
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key, mode), "$-1")
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key, mode, "BLOCK", "50"), "$-1")
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key, mode, "OWNER", "you"), "$-1")
			locktest.Want(t, a.Do("LOCK.ACQUIRE", key, mode, "OWNER", "me", "BLOCK", "0"), "-"+refusal.OtherMode)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		for _, mode := range []string{"READ", "WRITE"} {
			a.Token(key, mode, "OWNER", "me")
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key), "$-1")
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "BLOCK", "50"), "$-1")
			locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.OtherMode)
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		}
		locktest.WantNothing(t, rdb, key, a, b)
		rdb.HSet(context.Background(), key, "mode", "upgrade") // an unknown mode
		for _, mode := range []string{"READ", "WRITE", "FAIR"} {
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key, mode), "$-1")
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key, mode, "OWNER", "me"), "$-1")
		}
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key), "$-1")
		rdb.Set(context.Background(), key, "text", 0)
		for _, mode := range []string{"READ", "WRITE"} {
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key, mode),
				"-WRONGTYPE Operation against a key holding the wrong kind of value")
		}
	})
}

func TestDowngrade(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, b, c, d := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other),
			locktest.Connect(t, other)
		locktest.ReceiveEvents(t, rdb, s, other)
		wrote := a.Token(key, "WRITE", "OWNER", "me")
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "READ", "OWNER", "me"), "-"+refusal.Elsewhere)
		near := b.Await(s, 1, key, "READ", "BLOCK", "0")
		far := c.Await(other, 1, key, "READ", "BLOCK", "0")
		reads := a.Token(key, "READ", "OWNER", "me")
		if reads <= wrote || a.Carrier.Holds() != 2 {
			t.Errorf("got tokens %d, %d and %d holds", wrote, reads, a.Carrier.Holds())
		}
		a.Token(key, "WRITE", "OWNER", "me") // acquired again, with a READ hold in between
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(wrote, 10)), ":0")
		locktest.Want(t, d.Do("LOCK.ACQUIRE", key, "READ"), "$-1")
		if len(near)+len(far) != 0 {
			t.Fatal("a reader got in beside a writer")
		}
		// waiting readers are woken, unlike with Redisson
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "WRITE"), ":1")
		locktest.TokenOf(t, locktest.Woken(t, near))
		locktest.TokenOf(t, locktest.Woken(t, far))
		locktest.Want(t, d.Do("LOCK.ACQUIRE", key, "WRITE"), "$-1")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "WRITE", "OWNER", "me"), "-"+refusal.OtherMode)
		for _, reader := range []*locktest.Client{a, b, c} {
			locktest.Want(t, reader.Do("LOCK.RELEASE", key), ":1")
		}
		locktest.WantNothing(t, rdb, key, a, b, c, d)
		a.Token(key, "WRITE", "OWNER", "me")
		a.Token(key, "READ", "OWNER", "me")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "READ"), ":1") // the other order
		locktest.Want(t, d.Do("LOCK.ACQUIRE", key, "READ"), "$-1")
		a.Token(key, "READ", "OWNER", "me")
		a.Carrier.End(lockcmd.Release)
		locktest.WantNothing(t, rdb, key, a)
	})
}

func TestInfoOfReadersAndWriters(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b, c, j := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other),
			locktest.NewJavaRW(t, rdb, key, "1")
		info := func(want map[string]string) {
			t.Helper()
			for _, asked := range []*locktest.Client{a, c} {
				got := locktest.Fields(t, asked.Do("LOCK.INFO", key))
				for name, value := range want {
					if got[name] != value {
						t.Errorf("got %s = %q, want %q of %v", name, got[name], value, got)
					}
				}
			}
		}
		j.In(j.Write(30 * time.Second))
		j.In(j.Write(30 * time.Second))
		info(map[string]string{"mode": "write", "owner": j.Owner, "holds": "2", "token": "", "leash": "",
			"client": "", "since-ms": ""})
		j.Unwrite()
		j.Unwrite()
		locktest.Want(t, a.Do("LOCK.INFO", key), "$-1")

		j.In(j.Read(40 * time.Second))
		info(map[string]string{"mode": "read", "owner": j.Owner, "holds": "1", "token": ""})
		first := strconv.FormatInt(a.Token(key, "READ", "OWNER", "z"), 10)
		a.Token(key, "READ", "OWNER", "z")
		c.Token(key, "READ", "OWNER", "a")
		info(map[string]string{"mode": "read", "owner": "z", "token": first, "holds": "4", "leash": s.Holds.Leash,
			"client": "127.0.0.1:5000 test"})
		if left, _ := strconv.Atoi(locktest.Fields(t, a.Do("LOCK.INFO", key))["ttl-ms"]); left < 35_000 ||
			left > 40_000 {
			t.Errorf("got %d ms left, want as long as java's lasts", left)
		}
		j.Unread()
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "ALL"), ":1")
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")

		wrote := strconv.FormatInt(b.Token(key, "WRITE", "OWNER", "me"), 10)
		b.Token(key, "READ", "OWNER", "me")
		info(map[string]string{"mode": "write", "owner": "me", "token": wrote, "holds": "1"})
		reply := a.Await(s, 1, key, "READ", "BLOCK", "0")
		locktest.Want(t, locktest.Fields(t, b.Do("LOCK.INFO", key))["waiters"], "1")
		locktest.Want(t, b.Do("LOCK.RELEASE", key, "WRITE"), ":1")
		locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
		info(map[string]string{"mode": "read", "owner": "me", "holds": "2"})
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, a.Do("LOCK.INFO", key), "$-1")
		locktest.WantNothing(t, rdb, key, a, b, c)
	})
}
