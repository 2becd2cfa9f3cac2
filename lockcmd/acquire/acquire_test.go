package acquire_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/lockcmd"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestAcquireAndReleaseOfAPlainLock(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{TokenTTL: time.Hour}), locktest.NewKey(),
			context.Background()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		token := a.Token(key)
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key), "$-1")
		fields, err := rdb.HGetAll(ctx, key).Result()
		if err != nil || len(fields) != 2 {
			t.Fatalf("got fields %v, %v, want owner and record", fields, err)
		}
		r, ok := script.ParseRecord(fields["leash"])
		if !ok || r.Token != token || r.Carrier != a.Carrier.Name || r.Client != "127.0.0.1:5000 test" ||
			r.TTL != 30000 {
			t.Fatalf("got record %q", fields["leash"])
		}
		if left := rdb.PTTL(ctx, key).Val(); left < 25*time.Second || left > 30*time.Second {
			t.Errorf("got TTL %v, want 30s", left)
		}
		if left := rdb.PTTL(ctx, script.TokenKey(key)).Val(); left < 50*time.Minute {
			t.Errorf("got token TTL %v, want 1h", left)
		}
		if !a.Guarded.Load() || a.Carrier.Holds() != 1 {
			t.Error("the holder's connection is not guarded")
		}
		locktest.Want(t, b.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		if locktest.Exists(t, rdb, key) || a.Guarded.Load() || a.Carrier.Holds() != 0 {
			t.Error("something of the hold is left")
		}
	})
}

func TestR6TokensRise(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		a := locktest.Connect(t, s)
		last := int64(0)
		for range 50 {
			token := a.Token(key)
			if token <= last {
				t.Fatalf("got token %d after %d", token, last)
			}
			if stored := rdb.Get(ctx, script.TokenKey(key)).Val(); stored != strconv.FormatInt(token, 10) {
				t.Fatalf("got counter %q, want %d", stored, token)
			}
			last = token
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		}
		rdb.Del(ctx, script.TokenKey(key)) // a failover may lose the counter
		if token := a.Token(key); token <= last {
			t.Fatalf("got token %d after %d, though the counter was lost", token, last)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		rdb.Set(ctx, script.TokenKey(key), "9007199254740000", 0) // a counter ahead of the clock
		if token := a.Token(key); token != 9007199254740001 {
			t.Fatalf("got token %d, want the counter's next", token)
		}
		if left := rdb.PTTL(ctx, script.TokenKey(key)).Val(); left != -1 {
			t.Errorf("a counter without TTL got one: %v", left)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		rdb.Set(ctx, script.TokenKey(key), "9007199254740991", 0)
		locktest.WantPrefix(t, a.Do("LOCK.ACQUIRE", key), "-ERR the token counter")
		if locktest.Exists(t, rdb, key) {
			t.Error("an acquire without a token left a lock")
		}
	})
}

// TestR6TokensRiseOnEveryPath: The tokens of one lock rise, whether it is acquired on this Leash,
// on another Leash or in Java. A READ hold that is acquired again keeps its own token. (Redisson:
// RedissonFencedLockTest.)
func TestR6TokensRiseOnEveryPath(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		last := int64(0)
		rises := func(what string, token int64) {
			t.Helper()
			if token <= last {
				t.Errorf("%s: got token %d after %d", what, token, last)
			}
			last = token
		}
		for round, s := range []*lockcmd.Service{s, other, s} {
			for _, options := range []string{"", "LEASE 60000", "BLOCK 0", "FAIR", "FAIR BLOCK 0", "READ",
				"WRITE LEASE 60000", "OWNER me", "OWNER me READ"} {
				c, args := locktest.Connect(t, s), append([]string{key}, strings.Fields(options)...)
				token := c.Token(args...)
				rises(options, token)
				if strings.HasPrefix(options, "OWNER") && c.Token(args...) != token {
					t.Errorf("%s: acquired again, it has another token", options)
				}
				locktest.Want(t, c.Do("LOCK.RELEASE", key, "ALL"), ":1")
			}
			c := locktest.Connect(t, s)
			rises("MACQUIRE", locktest.TokensOf(t, c.Do("LOCK.MACQUIRE", "2", key, locktest.NewKey()), 2)[0])
			near, far := locktest.Connect(t, s), locktest.Connect(t, other)
			first := near.Await(s, 1, key, "BLOCK", "0")
			locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
			rises("handed over", locktest.TokenOf(t, locktest.Receive(t, first, 5*time.Second)))
			second := far.Start("LOCK.ACQUIRE", key, "BLOCK", "0")
			locktest.Eventually(t, 5*time.Second, "it waits", func() bool { return far.Waits.Load() == 1 })
			locktest.Want(t, near.Do("LOCK.RELEASE", key), ":1")
			rises("woken", locktest.TokenOf(t, locktest.Receive(t, second, 5*time.Second)))
			locktest.Want(t, far.Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(last, 10)), ":1")
			locktest.Want(t, far.Do("LOCK.RELEASE", key), ":1")
			locktest.Want(t, far.Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(last, 10)), ":0")
			java, err := rdb.Incr(t.Context(), script.TokenKey(key)).Result() // RFencedLock counts this way
			if err != nil {
				t.Fatal(err)
			}
			rises("java", java)
			// each reader has its own token
			if readers := []*locktest.Client{locktest.Connect(t, s), locktest.Connect(t, other)}; round == 0 {
				for _, reader := range readers {
					rises("reader", reader.Token(key, "READ"))
				}
				for _, reader := range readers {
					locktest.Want(t, reader.Do("LOCK.RELEASE", key), ":1")
				}
			}
		}
	})
}
