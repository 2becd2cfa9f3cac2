package wait_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
)

// TestMacquireWaitsWithTheKeysBefore: While MACQUIRE waits for a key, it holds the keys before it
// and none after it.
func TestMacquireWaitsWithTheKeysBefore(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKeys(3)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(keys[1])
		reply := b.Start(locktest.Several("LOCK.MACQUIRE", keys, "BLOCK", "0")...)
		locktest.Eventually(t, 5*time.Second, "b waits",
			func() bool { return s.Waiting(locktest.LockOf(keys[1])) == 1 })
		if !locktest.Exists(t, rdb, keys[0]) || locktest.Exists(t, rdb, keys[2]) {
			t.Errorf("in hand are %v and %v, want the first alone", locktest.Exists(t, rdb, keys[0]),
				locktest.Exists(t, rdb, keys[2]))
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[1]), ":1")
		locktest.TokensOf(t, locktest.Receive(t, reply, 5*time.Second), 3)
		if got := s.Stats().Waiters; got != 0 || b.Waits.Load() != 1 {
			t.Errorf("%d waiters, and b's host was told of %d waits", got, b.Waits.Load())
		}

		// BLOCK is the time for all keys. When it is over, nothing stays acquired.
		began := time.Now()
		locktest.Want(t, a.Do(locktest.Several("LOCK.MACQUIRE", append(locktest.NewKeys(1), keys...), "BLOCK",
			"300")...), locktest.Null)
		if took := time.Since(began); took < 300*time.Millisecond || took > locktest.Soon {
			t.Errorf("BLOCK 300 took %v", took)
		}
		if got := s.Stats().Holds; got != 3 {
			t.Errorf("%d holds, want 3", got)
		}
	})
}

// TestMacquireLeavesNothingToADisconnectedClient: A client disconnects while its MACQUIRE waits. No
// key stays acquired or waited for.
func TestMacquireLeavesNothingToADisconnectedClient(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(3)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(keys[2])
		reply := b.Start(locktest.Several("LOCK.MACQUIRE", keys, "BLOCK", "0", "ONCLOSE", "EXPIRE", "OWNER", "b")...)
		locktest.Eventually(t, 5*time.Second, "b waits",
			func() bool { return s.Waiting(locktest.LockOf(keys[2])) == 1 })
		b.Gone()
		locktest.WantPrefix(t, locktest.Receive(t, reply, 5*time.Second), "-LOCKTIMEOUT ")
		b.Carrier.End(lockcmd.Expire)
		for _, key := range keys[:2] {
			if locktest.Exists(t, rdb, key) {
				t.Errorf("%s stayed taken", key)
			}
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[2]), ":1")
		if locktest.Exists(t, rdb, keys[2]) {
			t.Error("the lock went to somebody who is gone")
		}
	})
}

// TestR5MacquireDeadlock: MACQUIRE refuses to wait for a key that its own connection holds.
func TestR5MacquireDeadlock(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(3)
		a := locktest.Connect(t, s)
		a.Token(keys[1])
		locktest.WantPrefix(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys, "BLOCK", "0")...), "-LOCKDEADLOCK ")
		locktest.WantPrefix(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys, "BLOCK", "0", "QUORUM", "2")...),
			"-LOCKDEADLOCK ")
		locktest.Want(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys)...), locktest.Null)
		if locktest.Exists(t, rdb, keys[0]) || locktest.Exists(t, rdb, keys[2]) {
			t.Error("something was taken")
		}
	})
}

// TestMacquireNeverDeadlocks: Clients on two Leashes acquire the same keys in different orders. All
// are served, one at a time.
func TestMacquireNeverDeadlocks(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKeys(4)
		var inside, errors sync.Map
		var wg sync.WaitGroup
		for n := range 8 {
			c := locktest.Connect(t, []*lockcmd.Service{one, other}[n%2])
			mine := []string{keys[n%4], keys[(n+1)%4], keys[(n+2)%4]}
			if n%3 == 0 {
				slices.Reverse(mine)
			}
			wg.Go(func() {
				for range 10 {
					reply := c.Do(locktest.Several("LOCK.MACQUIRE", mine, "BLOCK", "60000")...)
					if !strings.HasPrefix(reply, "*3\r\n:") {
						errors.Store(reply, true)
						return
					}
					for _, key := range mine {
						if _, busy := inside.LoadOrStore(key, true); busy {
							errors.Store("two hold "+key, true)
						}
					}
					for _, key := range mine {
						inside.Delete(key)
					}
					if got := c.Do(locktest.Several("LOCK.MRELEASE", mine)...); got != ":3" {
						errors.Store(got, true)
					}
				}
			})
		}
		wg.Wait()
		errors.Range(func(what, _ any) bool { t.Error(what); return true })
		for _, key := range keys {
			if locktest.Exists(t, rdb, key) {
				t.Errorf("%s stayed taken", key)
			}
		}
	})
}

// TestMacquireReportsNoLossBeforeTheGrant: A key is granted and lost while the MACQUIRE waits for
// another one. It is acquired again, and no loss is reported.
func TestMacquireReportsNoLossBeforeTheGrant(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 9 * time.Second}), locktest.NewKeys(2)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(keys[1])
		reply := b.Start(locktest.Several("LOCK.MACQUIRE", keys, "BLOCK", "0")...)
		locktest.Eventually(t, 5*time.Second, "b waits",
			func() bool { return s.Waiting(locktest.LockOf(keys[1])) == 1 })
		if err := rdb.Del(t.Context(), keys[0]).Err(); err != nil {
			t.Fatal(err)
		}
		locktest.Eventually(t, 5*time.Second, "the watchdog sees it", func() bool { return s.Stats().Holds == 1 })
		c := locktest.Connect(t, s)
		c.Token(keys[0])
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[1]), ":1")
		locktest.Eventually(t, 5*time.Second, "b waits for the first", func() bool {
			return s.Waiting(locktest.LockOf(keys[0])) == 1
		})
		locktest.Want(t, c.Do("LOCK.RELEASE", keys[0]), ":1")
		locktest.TokensOf(t, locktest.Receive(t, reply, 5*time.Second), 2)
		select {
		case loss := <-b.Losses:
			t.Errorf("b was told of the loss of %s", loss)
		default:
		}
		if n := s.Stats().Losses["gone"]; n != 0 {
			t.Errorf("%d losses were counted", n)
		}
	})
}

// TestMacquireEndsWithItsConnection: A MACQUIRE waits, and its connection ends. Its keys are
// released even with ONCLOSE EXPIRE, because no client knows of the grant.
func TestMacquireEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(2)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(keys[1])
		reply := b.Start(locktest.Several("LOCK.MACQUIRE", keys, "BLOCK", "0")...)
		locktest.Eventually(t, 5*time.Second, "b waits",
			func() bool { return s.Waiting(locktest.LockOf(keys[1])) == 1 })
		b.Carrier.End(lockcmd.Expire)
		if locktest.Exists(t, rdb, keys[0]) {
			t.Error("what was in hand stayed taken")
		}
		b.Gone()
		locktest.WantPrefix(t, locktest.Receive(t, reply, 5*time.Second), "-LOCKTIMEOUT ")
	})
}

// TestMacquireDuringAReleaseOfACount: A re-entered hold stays while one of its counts is being
// released.
func TestMacquireDuringAReleaseOfACount(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(2)
		slices.Sort(keys)
		a, holder := locktest.Connect(t, s), locktest.Connect(t, s)
		token := a.Token(keys[0], "OWNER", "me")
		holder.Token(keys[1])
		reply := a.Start(locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "me", "BLOCK", "0")...)
		locktest.Eventually(t, locktest.Soon, "it waits",
			func() bool { return s.Waiting(locktest.LockOf(keys[1])) == 1 })
		h := s.Holds.Find(locktest.LockOf(keys[0]), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.Redis.Deadline()) {
			t.Fatal("a request about the hold is under way")
		}
		_, until, _ := h.BeginRelease(false) // a release in progress
		locktest.Want(t, holder.Do("LOCK.RELEASE", keys[1]), ":1")
		if got := locktest.TokensOf(t, locktest.Receive(t, reply, 3*time.Second), 2); got[0] != token {
			t.Errorf("got token %d, want the hold's %d", got[0], token)
		}
		h.ResumeAfterRelease(until)
		h.UnlockRequests()
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[0]), ":0")
		locktest.Want(t, a.Do(locktest.Several("LOCK.MRELEASE", keys, "OWNER", "me")...), ":2")
	})
}
