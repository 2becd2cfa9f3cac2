package lockcmd

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
)

// TestTakenReplyContainsTheToken: The reply "taken" contains the token of the current holder.
func TestTakenReplyContainsTheToken(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		ask := func(key string, m *script.Mode) script.AcquireResult {
			w := connect(t, other)
			return w.send(w.acquireOf(m, key, ""))
		}
		for _, m := range script.Modes {
			asks := m
			if m == script.Read {
				asks = script.Write
			}
			a, key := connect(t, s), newKey()
			for range 2 {
				token := a.hold(key, m.Option)
				if r := ask(key, asks); r.Outcome != script.AcquireTaken || r.Token != token {
					t.Errorf("%s: got %v, token %d, want %d", m.Name, r.Outcome, r.Token, token)
				}
				want(t, a.do("LOCK.RELEASE", key), ":1")
			}
		}
		key := newKey()
		rdb.HSet(context.Background(), key, newUUID()+":1", 1) // a hold of Redisson
		rdb.PExpire(context.Background(), key, time.Minute)
		if r := ask(key, script.Plain); r.Outcome != script.AcquireTaken || r.Token != 0 {
			t.Errorf("Redisson's: got %v, token %d", r.Outcome, r.Token)
		}
	})
}
