package lockcmd

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/acquire"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

func TestAcquireAndReleaseOfAPlainLock(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{TokenTTL: time.Hour}), newKey(), context.Background()
		a, b := connect(t, s), connect(t, s)
		token := a.token(key)
		want(t, b.do("LOCK.ACQUIRE", key), "$-1")
		fields, err := rdb.HGetAll(ctx, key).Result()
		if err != nil || len(fields) != 2 {
			t.Fatalf("got fields %v, %v, want owner and record", fields, err)
		}
		r, ok := script.ParseRecord(fields["leash"])
		if !ok || r.Token != token || r.Carrier != a.carrier.Name || r.Client != "127.0.0.1:5000 test" ||
			r.TTL != 30000 {
			t.Fatalf("got record %q", fields["leash"])
		}
		if left := rdb.PTTL(ctx, key).Val(); left < 25*time.Second || left > 30*time.Second {
			t.Errorf("got TTL %v, want 30s", left)
		}
		if left := rdb.PTTL(ctx, script.TokenKey(key)).Val(); left < 50*time.Minute {
			t.Errorf("got token TTL %v, want 1h", left)
		}
		if !a.guarded.Load() || a.carrier.Holds() != 1 {
			t.Error("the holder's connection is not guarded")
		}
		want(t, b.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		want(t, a.do("LOCK.RELEASE", key), ":1")
		want(t, a.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		if exists(t, rdb, key) || a.guarded.Load() || a.carrier.Holds() != 0 {
			t.Error("something of the hold is left")
		}
	})
}

func TestR6TokensRise(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		a := connect(t, s)
		last := int64(0)
		for range 50 {
			token := a.token(key)
			if token <= last {
				t.Fatalf("got token %d after %d", token, last)
			}
			if stored := rdb.Get(ctx, script.TokenKey(key)).Val(); stored != strconv.FormatInt(token, 10) {
				t.Fatalf("got counter %q, want %d", stored, token)
			}
			last = token
			want(t, a.do("LOCK.RELEASE", key), ":1")
		}
		rdb.Del(ctx, script.TokenKey(key)) // a failover may lose the counter
		if token := a.token(key); token <= last {
			t.Fatalf("got token %d after %d, though the counter was lost", token, last)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		rdb.Set(ctx, script.TokenKey(key), "9007199254740000", 0) // a counter ahead of the clock
		if token := a.token(key); token != 9007199254740001 {
			t.Fatalf("got token %d, want the counter's next", token)
		}
		if left := rdb.PTTL(ctx, script.TokenKey(key)).Val(); left != -1 {
			t.Errorf("a counter without TTL got one: %v", left)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		rdb.Set(ctx, script.TokenKey(key), "9007199254740991", 0)
		wantPrefix(t, a.do("LOCK.ACQUIRE", key), "-ERR the token counter")
		if exists(t, rdb, key) {
			t.Error("an acquire without a token left a lock")
		}
	})
}

// TestR6TokensRiseOnEveryPath: The tokens of one lock rise, whether it is acquired on this Leash,
// on another Leash or in Java. A READ hold that is acquired again keeps its own token. (Redisson:
// RedissonFencedLockTest.)
func TestR6TokensRiseOnEveryPath(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		last := int64(0)
		rises := func(what string, token int64) {
			t.Helper()
			if token <= last {
				t.Errorf("%s: got token %d after %d", what, token, last)
			}
			last = token
		}
		for round, s := range []*Service{s, other, s} {
			for _, options := range []string{"", "LEASE 60000", "BLOCK 0", "FAIR", "FAIR BLOCK 0", "READ",
				"WRITE LEASE 60000", "OWNER me", "OWNER me READ"} {
				c, args := connect(t, s), append([]string{key}, strings.Fields(options)...)
				token := c.token(args...)
				rises(options, token)
				if strings.HasPrefix(options, "OWNER") && c.token(args...) != token {
					t.Errorf("%s: acquired again, it has another token", options)
				}
				want(t, c.do("LOCK.RELEASE", key, "ALL"), ":1")
			}
			c := connect(t, s)
			rises("MACQUIRE", tokensOf(t, c.do("LOCK.MACQUIRE", "2", key, newKey()), 2)[0])
			near, far := connect(t, s), connect(t, other)
			first := near.await(s, 1, key, "BLOCK", "0")
			want(t, c.do("LOCK.RELEASE", key), ":1")
			rises("handed over", tokenOf(t, receive(t, first, 5*time.Second)))
			second := far.start("LOCK.ACQUIRE", key, "BLOCK", "0")
			eventually(t, 5*time.Second, "it waits", func() bool { return far.waits.Load() == 1 })
			want(t, near.do("LOCK.RELEASE", key), ":1")
			rises("woken", tokenOf(t, receive(t, second, 5*time.Second)))
			want(t, far.do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(last, 10)), ":1")
			want(t, far.do("LOCK.RELEASE", key), ":1")
			want(t, far.do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(last, 10)), ":0")
			java, err := rdb.Incr(t.Context(), script.TokenKey(key)).Result() // RFencedLock counts this way
			if err != nil {
				t.Fatal(err)
			}
			rises("java", java)
			// each reader has its own token
			if readers := []*conn{connect(t, s), connect(t, other)}; round == 0 {
				for _, reader := range readers {
					rises("reader", reader.token(key, "READ"))
				}
				for _, reader := range readers {
					want(t, reader.do("LOCK.RELEASE", key), ":1")
				}
			}
		}
	})
}

// TestFailureText: A refusal of Leash is the reply as it is, whatever the key is. An error of Redis
// loses what Redis adds about the script.
func TestFailureText(t *testing.T) {
	for text, err := range map[string]error{
		"LOCKLOST a script: b gone":           acquire.Loss("a script: b", "gone"),
		"NOREPLICAS Not enough good replicas": transport.ReplyError("NOREPLICAS Not enough good replicas"),
		"ERR no":                              transport.ReplyError("ERR no script: 1234, on @user_script:1."),
	} {
		if got := failureText(err); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}
