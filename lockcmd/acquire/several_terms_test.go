package acquire_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
)

// These tests check the options of a MACQUIRE and its repetitions.

// TestMacquireLeaseBeginsWithTheLastKey: Keys that are already held are renewed while the others
// are waited for, however short LEASE is.
func TestMacquireLeaseBeginsWithTheLastKey(t *testing.T) {
	t.Parallel() // mostly waiting
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(3)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(keys[2])
		reply := b.Start(locktest.Several("LOCK.MACQUIRE", keys, "BLOCK", "0", "LEASE", "6000")...)
		locktest.Eventually(t, 5*time.Second, "b waits",
			func() bool { return s.Waiting(locktest.LockOf(keys[2])) == 1 })
		for began := time.Now(); time.Since(began) < 7*time.Second; <-time.After(20 * time.Millisecond) {
			if !locktest.Exists(t, rdb, keys[0]) || !locktest.Exists(t, rdb, keys[1]) {
				t.Fatal("what was in hand has run out")
			}
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[2]), ":1")
		locktest.TokensOf(t, locktest.Receive(t, reply, 5*time.Second), 3)
		for _, key := range keys {
			if left := rdb.PTTL(t.Context(), key).Val(); left > 6*time.Second {
				t.Errorf("%s lasts %v", key, left)
			}
			locktest.Eventually(t, 5*time.Second, "the lease ends",
				func() bool { return !locktest.Exists(t, rdb, key) })
		}
		locktest.Eventually(t, 5*time.Second, "nothing is held", func() bool { return s.Stats().Holds == 0 })
		select {
		case loss := <-b.Losses:
			t.Errorf("b was told of the loss of %s", loss)
		default:
		}
		locktest.TokensOf(t, b.Do(locktest.Several("LOCK.MACQUIRE", keys, "BLOCK", "0", "LEASE", "60000")...), 3)
		b.Carrier.End(lockcmd.Release)
		for _, key := range keys { // like any lease, whatever the connection does
			if !locktest.Exists(t, rdb, key) {
				t.Errorf("%s has ended with its connection", key)
			}
		}
	})
}

// TestMacquireMaxHoldBeginsWithTheLastKey: MAXHOLD counts from the time when all keys were granted.
func TestMacquireMaxHoldBeginsWithTheLastKey(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(2)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(keys[1])
		reply := b.Start(locktest.Several("LOCK.MACQUIRE", keys, "BLOCK", "0", "MAXHOLD", "4000")...)
		locktest.Eventually(t, 5*time.Second, "b waits",
			func() bool { return s.Waiting(locktest.LockOf(keys[1])) == 1 })
		for began := time.Now(); time.Since(began) < 4200*time.Millisecond; <-time.After(20 * time.Millisecond) {
			if !locktest.Exists(t, rdb, keys[0]) {
				t.Fatal("what was in hand was taken away")
			}
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", keys[1]), ":1")
		locktest.TokensOf(t, locktest.Receive(t, reply, 5*time.Second), 2)
		for range keys {
			if told := locktest.Receive(t, b.Losses, 5*time.Second); !strings.HasSuffix(told, " maxhold") {
				t.Errorf("told of %q", told)
			}
		}
		locktest.Eventually(t, 5*time.Second, "both are released", func() bool {
			return !locktest.Exists(t, rdb, keys[0]) && !locktest.Exists(t, rdb, keys[1])
		})
	})
}

// TestMacquireOfUnknownOutcome: A node does not answer whether it granted its key. Nothing stays
// acquired anywhere.
func TestMacquireOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	// the stopped node must stay a master
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: time.Minute})
	rdb := locktest.DialCluster(t, cluster.Addrs()...)
	s := locktest.Start(t, rdb, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	var keys []string
	for _, slot := range []int{0, 8000, 16000} {
		keys = append(keys, redistest.KeyIn(slot, locktest.NewKey()))
	}
	a := locktest.Connect(t, s)
	locktest.TokensOf(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys)...), 3)
	locktest.Want(t, a.Do(locktest.Several("LOCK.MRELEASE", keys)...), ":3")
	stopped := cluster.MasterOf(8000)
	if err := stopped.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, options := range [][]string{nil, {"BLOCK", "500"}, {"LEASE", "60000", "BLOCK", "500"}} {
		locktest.WantPrefix(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys, options...)...), "-LOCKTIMEOUT ")
		locktest.Eventually(t, 10*time.Second, "nothing is taken", func() bool {
			return !locktest.Exists(t, rdb, keys[0]) && !locktest.Exists(t, rdb, keys[2])
		})
	}
	if err := stopped.Resume(); err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, 20*time.Second, "what the stopped node granted is undone", func() bool {
		return !locktest.Exists(t, rdb, keys[1])
	})
	if got := s.Stats().Holds; got != 0 {
		t.Errorf("%d holds", got)
	}
}

// TestR7MacquireRepeated: With the same ID, MACQUIRE returns the same tokens and does not count
// again. From another connection it moves all of the holds, or keeps none.
func TestR7MacquireRepeated(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKeys(3)
		a, b, c := locktest.Connect(t, one), locktest.Connect(t, other), locktest.Connect(t, other)
		acquire := locktest.Several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "1")
		tokens := locktest.TokensOf(t, a.Do(acquire...), 3)
		if again := locktest.TokensOf(t, a.Do(acquire...), 3); !slices.Equal(again, tokens) {
			t.Errorf("got tokens %v, want %v", again, tokens)
		}
		if moved := locktest.TokensOf(t, b.Do(acquire...), 3); !slices.Equal(moved, tokens) {
			t.Errorf("got tokens %v, want %v", moved, tokens)
		}
		locktest.Eventually(t, 5*time.Second, "the first connection has none",
			func() bool { return one.Stats().Holds == 0 })
		locktest.Want(t, b.Do("LOCK.RELEASE", keys[1]), ":1")
		blocker := locktest.Connect(t, one)
		blocker.Token(keys[1])
		locktest.Want(t, c.Do(acquire...), locktest.Null)
		for i, key := range keys {
			if locktest.Exists(t, rdb, key) != (i == 1) {
				t.Errorf("%s is taken: %v", key, i != 1)
			}
		}
		locktest.Want(t, b.Do(locktest.Several("LOCK.MRELEASE", keys)...), ":0")
	})
}
