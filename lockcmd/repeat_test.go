package lockcmd

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// The last ACQUIRE of a hold is repeated with its ID on the connection that carries the hold. The
// repetition takes the place of the first request. If the repetition fails, the first one is
// undone.

// TestR32RepetitionOnItsConnectionIsUndone: The repetition asks for replicas, which do not have the
// hold.
func TestR32RepetitionOnItsConnectionIsUndone(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		for _, mode := range []string{"", "READ", "WRITE", "FAIR"} {
			var options []string
			field := "x"
			if mode != "" {
				options = []string{mode}
			}
			if mode == "WRITE" {
				field = "x:write"
			}
			again := append([]string{"LOCK.ACQUIRE", key, "OWNER", "x", "ID", "2", "REPLICAS", "1", "BLOCK", "20"},
				options...)
			token := a.twice(key, options...)
			wantPrefix(t, a.do(again...), "-NOREPLICAS 0 of 1 ")
			want(t, count(rdb, key, field), "1")
			wantPrefix(t, a.do(again...), "-NOREPLICAS 0 of 1 ") // it counted, and was undone
			want(t, count(rdb, key, field), "1")
			// and it counts again
			if got := a.token(append([]string{key, "OWNER", "x", "ID", "2"}, options...)...); got != token {
				t.Errorf("%s: got token %d, want %d", mode, got, token)
			}
			want(t, count(rdb, key, field), "2")
			want(t, a.do("LOCK.RELEASE", key), ":0")
			wantPrefix(t, a.do(again...), "-NOREPLICAS 0 of 1 ") // it is still the last request
			wantNothing(t, rdb, key, a)
		}
	})
}

// TestR7RepeatedMacquireThatFailsIsUndone: Another owner holds one of the keys now, so the repeated
// MACQUIRE fails. What it acquired the first time is undone.
func TestR7RepeatedMacquireThatFailsIsUndone(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(3)
		a, b := connect(t, s), connect(t, s)
		acquire := several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "2")
		a.token(keys[0], "OWNER", "x", "ID", "1")
		tokensOf(t, a.do(acquire...), 3)
		want(t, a.do("LOCK.RELEASE", keys[2]), ":1")
		b.token(keys[2])
		want(t, a.do(acquire...), null)
		eventually(t, time.Second, "it is undone", func() bool {
			return count(rdb, keys[0], "x") == "1" && !exists(t, rdb, keys[1])
		})
		want(t, b.do("LOCK.RELEASE", keys[2]), ":1")
		tokensOf(t, a.do(acquire...), 3)
		want(t, count(rdb, keys[0], "x"), "2")
		want(t, a.do(several("LOCK.MRELEASE", keys)...), ":2")
		want(t, a.do("LOCK.RELEASE", keys[0]), ":1")
	})
}

// TestR26UnansweredRepetitionIsUndone: The repetition gets no answer from Redis. Its client is told
// that the acquire is being undone.
func TestR26UnansweredRepetitionIsUndone(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(*testing.T))
	for _, ran := range []bool{true, false} {
		for _, command := range [][]string{{"LOCK.ACQUIRE"}, {"LOCK.MACQUIRE", "1"}} {
			tests[fmt.Sprint(ran, command)] = func(t *testing.T) {
				s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
				a, key := connect(t, s), newKey()
				token := a.twice(key)
				again := append(command, key, "OWNER", "x", "ID", "2")
				fault := drop(p, ran)(running(script.AcquireScript, key), faultproxy.Always())
				want(t, a.do(again...), "-"+refusal.Unanswered)
				fault.Disarm()
				eventually(t, 3*time.Second, "the acquire is undone", func() bool {
					return count(straight.Redis.Redis, key, "x") == "1"
				})
				if got := a.token(key, "OWNER", "x", "ID", "2"); got != token {
					t.Errorf("got token %d, want %d", got, token)
				}
				want(t, a.do("LOCK.RELEASE", key), ":0")
				fault = drop(p, ran)(running(script.AcquireScript, key), faultproxy.Always())
				want(t, a.do(again...), "-"+refusal.Unanswered)
				fault.Disarm()
				eventually(t, 3*time.Second, "it was the last one", func() bool {
					return !exists(t, straight.Redis.Redis, key) && a.carrier.Holds() == 0
				})
				wantNothing(t, straight.Redis.Redis, key, a)
			}
		}
	}
	runParallel(t, tests)
}

// TestR7MovedHoldWithoutID: The last acquire of a moved hold had no ID. No other request can repeat
// it.
func TestR7MovedHoldWithoutID(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, s)
		b.attach(key, "x", a.token(key, "OWNER", "x"))
		b.token(key, "OWNER", "x", "ID", "-")
		if d := b.carrier.oldest().Details(); d.Count != 2 {
			t.Errorf("got count %d, want 2", d.Count)
		}
		want(t, count(rdb, key, "x"), "2")
		want(t, b.do("LOCK.RELEASE", key), ":0")
		want(t, b.do("LOCK.RELEASE", key), ":1")
	})
}

// TestR26UndoBesideARelease: An undo and a release of the owner wait for Redis at the same time.
// The release does nothing in the end. The undo is done, and the owner can release the rest.
func TestR26UndoBesideARelease(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{UpstreamTimeout: shortTimeout}), newKey()
		a := connect(t, s)
		a.twice(key)
		h := a.carrier.oldest()
		if !h.LockRequests(s.deadline()) {
			t.Fatal("a request is under way")
		}
		want(t, a.do("LOCK.RELEASE", key), "-"+refusal.Refused)
		back := make(chan struct{})
		go func() { defer close(back); s.Releaser.PutBack(h, "2") }()
		<-time.After(300 * time.Millisecond) // longer than the release waits for Redis
		h.UnlockRequests()
		receive(t, back, 5*time.Second)
		want(t, count(rdb, key, "x"), "1")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if exists(t, rdb, key) || a.carrier.Holds() != 0 {
			t.Error("the hold has not ended")
		}
	})
}
