package lockcmd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
)

// These tests check the options of a MACQUIRE and its repetitions.

// TestMacquireLeaseBeginsWithTheLastKey: Keys that are already held are renewed while the others
// are waited for, however short LEASE is.
func TestMacquireLeaseBeginsWithTheLastKey(t *testing.T) {
	t.Parallel() // mostly waiting
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(3)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[2])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0", "LEASE", "6000")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.Waiting(lockOf(keys[2])) == 1 })
		for began := time.Now(); time.Since(began) < 7*time.Second; <-time.After(20 * time.Millisecond) {
			if !exists(t, rdb, keys[0]) || !exists(t, rdb, keys[1]) {
				t.Fatal("what was in hand has run out")
			}
		}
		want(t, a.do("LOCK.RELEASE", keys[2]), ":1")
		tokensOf(t, receive(t, reply, 5*time.Second), 3)
		for _, key := range keys {
			if left := rdb.PTTL(t.Context(), key).Val(); left > 6*time.Second {
				t.Errorf("%s lasts %v", key, left)
			}
			eventually(t, 5*time.Second, "the lease ends", func() bool { return !exists(t, rdb, key) })
		}
		eventually(t, 5*time.Second, "nothing is held", func() bool { return s.Stats().Holds == 0 })
		select {
		case loss := <-b.losses:
			t.Errorf("b was told of the loss of %s", loss)
		default:
		}
		tokensOf(t, b.do(several("LOCK.MACQUIRE", keys, "BLOCK", "0", "LEASE", "60000")...), 3)
		b.carrier.End(Release)
		for _, key := range keys { // like any lease, whatever the connection does
			if !exists(t, rdb, key) {
				t.Errorf("%s has ended with its connection", key)
			}
		}
	})
}

// TestMacquireMaxHoldBeginsWithTheLastKey: MAXHOLD counts from the time when all keys were granted.
func TestMacquireMaxHoldBeginsWithTheLastKey(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(2)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[1])
		reply := b.start(several("LOCK.MACQUIRE", keys, "BLOCK", "0", "MAXHOLD", "4000")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return s.Waiting(lockOf(keys[1])) == 1 })
		for began := time.Now(); time.Since(began) < 4200*time.Millisecond; <-time.After(20 * time.Millisecond) {
			if !exists(t, rdb, keys[0]) {
				t.Fatal("what was in hand was taken away")
			}
		}
		want(t, a.do("LOCK.RELEASE", keys[1]), ":1")
		tokensOf(t, receive(t, reply, 5*time.Second), 2)
		for range keys {
			if told := receive(t, b.losses, 5*time.Second); !strings.HasSuffix(told, " maxhold") {
				t.Errorf("told of %q", told)
			}
		}
		eventually(t, 5*time.Second, "both are released", func() bool {
			return !exists(t, rdb, keys[0]) && !exists(t, rdb, keys[1])
		})
	})
}

// TestMacquireOfUnknownOutcome: A node does not answer whether it granted its key. Nothing stays
// acquired anywhere.
func TestMacquireOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	// the stopped node must stay a master
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: time.Minute})
	rdb := dialCluster(t, cluster.Addrs()...)
	s := leash(t, rdb, Config{UpstreamTimeout: shortTimeout})
	var keys []string
	for _, slot := range []int{0, 8000, 16000} {
		keys = append(keys, redistest.KeyIn(slot, newKey()))
	}
	a := connect(t, s)
	tokensOf(t, a.do(several("LOCK.MACQUIRE", keys)...), 3)
	want(t, a.do(several("LOCK.MRELEASE", keys)...), ":3")
	stopped := cluster.MasterOf(8000)
	if err := stopped.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, options := range [][]string{nil, {"BLOCK", "0"}, {"LEASE", "60000", "BLOCK", "500"}} {
		wantPrefix(t, a.do(several("LOCK.MACQUIRE", keys, options...)...), "-LOCKTIMEOUT ")
		eventually(t, 10*time.Second, "nothing is taken", func() bool {
			return !exists(t, rdb, keys[0]) && !exists(t, rdb, keys[2])
		})
	}
	if err := stopped.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "what the stopped node granted is undone", func() bool {
		return !exists(t, rdb, keys[1])
	})
	if got := s.Stats().Holds; got != 0 {
		t.Errorf("%d holds", got)
	}
}

// TestR7MacquireRepeated: With the same ID, MACQUIRE returns the same tokens and does not count
// again. From another connection it moves all of the holds, or keeps none.
func TestR7MacquireRepeated(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKeys(3)
		a, b, c := connect(t, one), connect(t, other), connect(t, other)
		acquire := several("LOCK.MACQUIRE", keys, "OWNER", "x", "ID", "1")
		tokens := tokensOf(t, a.do(acquire...), 3)
		if again := tokensOf(t, a.do(acquire...), 3); !slices.Equal(again, tokens) {
			t.Errorf("got tokens %v, want %v", again, tokens)
		}
		if moved := tokensOf(t, b.do(acquire...), 3); !slices.Equal(moved, tokens) {
			t.Errorf("got tokens %v, want %v", moved, tokens)
		}
		eventually(t, 5*time.Second, "the first connection has none", func() bool { return one.Stats().Holds == 0 })
		want(t, b.do("LOCK.RELEASE", keys[1]), ":1")
		blocker := connect(t, one)
		blocker.token(keys[1])
		want(t, c.do(acquire...), null)
		for i, key := range keys {
			if exists(t, rdb, key) != (i == 1) {
				t.Errorf("%s is taken: %v", key, i != 1)
			}
		}
		want(t, b.do(several("LOCK.MRELEASE", keys)...), ":0")
	})
}
