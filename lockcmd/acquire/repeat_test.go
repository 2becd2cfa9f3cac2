package acquire_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
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
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a := locktest.Connect(t, s)
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
			token := a.Twice(key, options...)
			locktest.WantPrefix(t, a.Do(again...), "-NOREPLICAS 0 of 1 ")
			locktest.Want(t, locktest.Count(rdb, key, field), "1")
			locktest.WantPrefix(t, a.Do(again...), "-NOREPLICAS 0 of 1 ") // it counted, and was undone
			locktest.Want(t, locktest.Count(rdb, key, field), "1")
			// and it counts again
			if got := a.Token(append([]string{key, "OWNER", "x", "ID", "2"}, options...)...); got != token {
				t.Errorf("%s: got token %d, want %d", mode, got, token)
			}
			locktest.Want(t, locktest.Count(rdb, key, field), "2")
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
			locktest.WantPrefix(t, a.Do(again...), "-NOREPLICAS 0 of 1 ") // it is still the last request
			locktest.WantNothing(t, rdb, key, a)
		}
	})
}

// TestR7RepeatedMacquireThatFailsIsUndone: Another owner holds one of the keys now, so the repeated
// MACQUIRE fails. What it acquired the first time is undone.
func TestR7RepeatedMacquireThatFailsIsUndone(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(3)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		acquire := locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "2")
		a.Token(keys[0], "OWNER", "x", "ID", "1")
		locktest.TokensOf(t, a.Do(acquire...), 3)
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[2]), ":1")
		b.Token(keys[2])
		locktest.Want(t, a.Do(acquire...), locktest.Null)
		locktest.Eventually(t, time.Second, "it is undone", func() bool {
			return locktest.Count(rdb, keys[0], "x") == "1" && !locktest.Exists(t, rdb, keys[1])
		})
		locktest.Want(t, b.Do("LOCK.RELEASE", keys[2]), ":1")
		locktest.TokensOf(t, a.Do(acquire...), 3)
		locktest.Want(t, locktest.Count(rdb, keys[0], "x"), "2")
		locktest.Want(t, a.Do(locktest.Several("LOCK.MRELEASE", keys)...), ":2")
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[0]), ":1")
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
				s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
				a, key := locktest.Connect(t, s), locktest.NewKey()
				token := a.Twice(key)
				again := append(command, key, "OWNER", "x", "ID", "2")
				fault := locktest.Drop(p, ran)(locktest.Running(script.AcquireScript, key), faultproxy.Always())
				locktest.Want(t, a.Do(again...), "-"+refusal.Unanswered)
				fault.Disarm()
				locktest.Eventually(t, 3*time.Second, "the acquire is undone", func() bool {
					return locktest.Count(locktest.RedisOf(straight), key, "x") == "1"
				})
				if got := a.Token(key, "OWNER", "x", "ID", "2"); got != token {
					t.Errorf("got token %d, want %d", got, token)
				}
				locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
				fault = locktest.Drop(p, ran)(locktest.Running(script.AcquireScript, key), faultproxy.Always())
				locktest.Want(t, a.Do(again...), "-"+refusal.Unanswered)
				fault.Disarm()
				locktest.Eventually(t, 3*time.Second, "it was the last one", func() bool {
					return !locktest.Exists(t, locktest.RedisOf(straight), key) && a.Carrier.Holds() == 0
				})
				locktest.WantNothing(t, locktest.RedisOf(straight), key, a)
			}
		}
	}
	locktest.RunParallel(t, tests)
}

// TestR7MovedHoldWithoutID: The last acquire of a moved hold had no ID. No other request can repeat
// it.
func TestR7MovedHoldWithoutID(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		b.Attach(key, "x", a.Token(key, "OWNER", "x"))
		b.Token(key, "OWNER", "x", "ID", "-")
		if d := b.Oldest().Details(); d.Count != 2 {
			t.Errorf("got count %d, want 2", d.Count)
		}
		locktest.Want(t, locktest.Count(rdb, key, "x"), "2")
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":0")
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	})
}

// TestR26UndoBesideARelease: An undo and a release of the owner wait for Redis at the same time.
// The release does nothing in the end. The undo is done, and the owner can release the rest.
func TestR26UndoBesideARelease(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout}), locktest.NewKey()
		a := locktest.Connect(t, s)
		a.Twice(key)
		h := a.Oldest()
		if !h.LockRequests(s.Redis.Deadline()) {
			t.Fatal("a request is under way")
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotAccepted)
		back := make(chan struct{})
		go func() { defer close(back); s.Releaser.PutBack(h, "2") }()
		<-time.After(300 * time.Millisecond) // longer than the release waits for Redis
		h.UnlockRequests()
		locktest.Receive(t, back, 5*time.Second)
		locktest.Want(t, locktest.Count(rdb, key, "x"), "1")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if locktest.Exists(t, rdb, key) || a.Carrier.Holds() != 0 {
			t.Error("the hold has not ended")
		}
	})
}
