package lockcmd

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/hold"
)

// TestMacquireWaitsWithTheKeysBefore: While MACQUIRE waits for a key, it holds the keys before it
// and none after it.
func TestMacquireWaitsWithTheKeysBefore(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}, slowRetries), newKeys(3)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[1])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.Waiting(lockOf(keys[1])) == 1 })
		if !exists(t, rdb, keys[0]) || exists(t, rdb, keys[2]) {
			t.Errorf("in hand are %v and %v, want the first alone", exists(t, rdb, keys[0]), exists(t, rdb, keys[2]))
		}
		want(t, a.do("LOCK.RELEASE", keys[1]), ":1")
		tokensOf(t, receive(t, reply, 5*time.Second), 3)
		if got := s.Stats().Waiters; got != 0 || b.waits.Load() != 1 {
			t.Errorf("%d waiters, and b's host was told of %d waits", got, b.waits.Load())
		}

		// BLOCK is the time for all keys. When it is over, nothing stays acquired.
		began := time.Now()
		want(t, a.do(several("LOCK.MACQUIRE", append(newKeys(1), keys...), "BLOCK", "300")...), null)
		if took := time.Since(began); took < 300*time.Millisecond || took > soon {
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(3)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[2])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0", "ONCLOSE", "EXPIRE", "OWNER", "b")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.Waiting(lockOf(keys[2])) == 1 })
		b.gone()
		wantPrefix(t, receive(t, reply, 5*time.Second), "-LOCKTIMEOUT ")
		b.carrier.End(Expire)
		for _, key := range keys[:2] {
			if exists(t, rdb, key) {
				t.Errorf("%s stayed taken", key)
			}
		}
		want(t, a.do("LOCK.RELEASE", keys[2]), ":1")
		if exists(t, rdb, keys[2]) {
			t.Error("the lock went to somebody who is gone")
		}
	})
}

// TestR5MacquireDeadlock: MACQUIRE refuses to wait for a key that its own connection holds.
func TestR5MacquireDeadlock(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(3)
		a := connect(t, s)
		a.token(keys[1])
		wantPrefix(t, a.do(several("LOCK.MACQUIRE", keys, "BLOCK", "0")...), "-LOCKDEADLOCK ")
		wantPrefix(t, a.do(several("LOCK.MACQUIRE", keys, "BLOCK", "0", "QUORUM", "2")...), "-LOCKDEADLOCK ")
		want(t, a.do(several("LOCK.MACQUIRE", keys)...), null)
		if exists(t, rdb, keys[0]) || exists(t, rdb, keys[2]) {
			t.Error("something was taken")
		}
	})
}

// TestMacquireNeverDeadlocks: Clients on two Leashes acquire the same keys in different orders. All
// are served, one at a time.
func TestMacquireNeverDeadlocks(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKeys(4)
		var inside, errors sync.Map
		var wg sync.WaitGroup
		for n := range 8 {
			c := connect(t, []*Service{one, other}[n%2])
			mine := []string{keys[n%4], keys[(n+1)%4], keys[(n+2)%4]}
			if n%3 == 0 {
				slices.Reverse(mine)
			}
			wg.Go(func() {
				for range 10 {
					reply := c.do(several("LOCK.MACQUIRE", mine, "BLOCK", "60000")...)
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
					if got := c.do(several("LOCK.MRELEASE", mine)...); got != ":3" {
						errors.Store(got, true)
					}
				}
			})
		}
		wg.Wait()
		errors.Range(func(what, _ any) bool { t.Error(what); return true })
		for _, key := range keys {
			if exists(t, rdb, key) {
				t.Errorf("%s stayed taken", key)
			}
		}
	})
}

// TestMacquireReportsNoLossBeforeTheGrant: A key is granted and lost while the MACQUIRE waits for
// another one. It is acquired again, and no loss is reported.
func TestMacquireReportsNoLossBeforeTheGrant(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{WatchdogTimeout: 9 * time.Second}), newKeys(2)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[1])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.Waiting(lockOf(keys[1])) == 1 })
		if err := rdb.Del(t.Context(), keys[0]).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 5*time.Second, "the watchdog sees it", func() bool { return s.Stats().Holds == 1 })
		c := connect(t, s)
		c.token(keys[0])
		want(t, a.do("LOCK.RELEASE", keys[1]), ":1")
		eventually(t, 5*time.Second, "b waits for the first", func() bool {
			return s.Waiting(lockOf(keys[0])) == 1
		})
		want(t, c.do("LOCK.RELEASE", keys[0]), ":1")
		tokensOf(t, receive(t, reply, 5*time.Second), 2)
		select {
		case loss := <-b.losses:
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(2)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[1])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.Waiting(lockOf(keys[1])) == 1 })
		b.carrier.End(Expire)
		if exists(t, rdb, keys[0]) {
			t.Error("what was in hand stayed taken")
		}
		b.gone()
		wantPrefix(t, receive(t, reply, 5*time.Second), "-LOCKTIMEOUT ")
	})
}

// TestMacquireDuringAReleaseOfACount: A re-entered hold stays while one of its counts is being
// released.
func TestMacquireDuringAReleaseOfACount(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(2)
		slices.Sort(keys)
		a, holder := connect(t, s), connect(t, s)
		token := a.token(keys[0], "OWNER", "me")
		holder.token(keys[1])
		reply := a.start(several("LOCK.MACQUIRE", keys, "OWNER", "me", "BLOCK", "0")...)
		eventually(t, soon, "it waits", func() bool { return s.Waiting(lockOf(keys[1])) == 1 })
		h := s.Holds.Find(lockOf(keys[0]), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.deadline()) {
			t.Fatal("a request about the hold is under way")
		}
		_, until, _ := h.BeginRelease(false) // a release in progress
		want(t, holder.do("LOCK.RELEASE", keys[1]), ":1")
		if got := tokensOf(t, receive(t, reply, 3*time.Second), 2); got[0] != token {
			t.Errorf("got token %d, want the hold's %d", got[0], token)
		}
		h.ResumeAfterRelease(until)
		h.UnlockRequests()
		want(t, a.do("LOCK.RELEASE", keys[0]), ":0")
		want(t, a.do(several("LOCK.MRELEASE", keys, "OWNER", "me")...), ":2")
	})
}
