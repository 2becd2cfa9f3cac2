package lockcmd

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAcquireAndReleaseOfAPlainLock(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{TokenTTL: time.Hour}), newKey(), context.Background()
		a, b := connect(t, s), connect(t, s)
		token := a.token(key)
		want(t, b.do("LOCK.ACQUIRE", key), "$-1")
		fields, err := rdb.HGetAll(ctx, key).Result()
		if err != nil || len(fields) != 2 {
			t.Fatalf("got fields %v, %v, want owner and record", fields, err)
		}
		r, ok := parseRecord(fields["leash"])
		if !ok || r.token != token || r.carrier != a.carrier.name || r.client != "127.0.0.1:5000 test" || r.ttl != 30000 {
			t.Fatalf("got record %q", fields["leash"])
		}
		if left := rdb.PTTL(ctx, key).Val(); left < 29*time.Second || left > 30*time.Second {
			t.Errorf("got TTL %v, want 30s", left)
		}
		if left := rdb.PTTL(ctx, tokenKey(key)).Val(); left < 59*time.Minute {
			t.Errorf("got token TTL %v, want 1h", left)
		}
		if !a.guarded.Load() || a.carrier.Holds() != 1 {
			t.Error("the holder's connection is not guarded")
		}
		want(t, b.do("LOCK.RELEASE", key), "-"+msgNotHeld)
		want(t, a.do("LOCK.RELEASE", key), ":1")
		want(t, a.do("LOCK.RELEASE", key), "-"+msgNotHeld)
		if exists(t, rdb, key) || a.guarded.Load() || a.carrier.Holds() != 0 {
			t.Error("something of the hold is left")
		}
	})
}

func TestR6TokensRise(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		a := connect(t, s)
		last := int64(0)
		for range 50 {
			token := a.token(key)
			if token <= last {
				t.Fatalf("got token %d after %d", token, last)
			}
			if stored := rdb.Get(ctx, tokenKey(key)).Val(); stored != strconv.FormatInt(token, 10) {
				t.Fatalf("got counter %q, want %d", stored, token)
			}
			last = token
			want(t, a.do("LOCK.RELEASE", key), ":1")
		}
		rdb.Del(ctx, tokenKey(key)) // as a failover may
		if token := a.token(key); token <= last {
			t.Fatalf("got token %d after %d, though the counter was lost", token, last)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		rdb.Set(ctx, tokenKey(key), "9007199254740000", 0) // ahead of the clock
		if token := a.token(key); token != 9007199254740001 {
			t.Fatalf("got token %d, want the counter's next", token)
		}
		if left := rdb.PTTL(ctx, tokenKey(key)).Val(); left != -1 {
			t.Errorf("a counter without TTL got one: %v", left)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		rdb.Set(ctx, tokenKey(key), "9007199254740991", 0)
		wantPrefix(t, a.do("LOCK.ACQUIRE", key), "-ERR the token counter")
		if exists(t, rdb, key) {
			t.Error("an acquire without a token left a lock")
		}
	})
}
