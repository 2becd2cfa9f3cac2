package acquire_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func howMany(tokens []int64) (n int) {
	for _, token := range tokens {
		if token != 0 {
			n++
		}
	}
	return n
}

func TestQuorumTakesAMajority(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(5)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(keys[0])
		a.Token(keys[3])
		tokens := locktest.TokensOf(t, b.Do(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "3")...), 5)
		if tokens[0] != 0 || tokens[3] != 0 || howMany(tokens) != 3 {
			t.Errorf("got tokens %v", tokens)
		}
		locktest.Want(t, b.Do(locktest.Several("LOCK.MRELEASE", keys)...), ":3")
		locktest.Want(t, b.Do(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "4")...), locktest.Null)
		for _, i := range []int{1, 2, 4} {
			if locktest.Exists(t, rdb, keys[i]) {
				t.Errorf("key %d stayed taken", i)
			}
		}
		locktest.Want(t, a.Do(locktest.Several("LOCK.MRELEASE", keys)...), ":2")
		if tokens := locktest.TokensOf(t, b.Do(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "3")...),
			5); howMany(tokens) != 5 {
			t.Errorf("got tokens %v, want all that are to be had", tokens)
		}
	})
}

func TestQuorumWaits(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKeys(3)
		a, b, c := locktest.Connect(t, one), locktest.Connect(t, other), locktest.Connect(t, other)
		locktest.TokensOf(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "2")...), 3)
		began := time.Now()
		locktest.Want(t, b.Do(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "2", "BLOCK", "300")...), locktest.Null)
		if took := time.Since(began); took < 300*time.Millisecond || took > locktest.Soon {
			t.Errorf("BLOCK 300 took %v", took)
		}
		first := b.Start(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "2", "BLOCK", "0")...)
		locktest.Eventually(t, 5*time.Second, "b waits", func() bool { return other.Stats().Waiters == 1 })
		second := c.Start(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "2", "BLOCK", "0")...)
		locktest.Eventually(t, 5*time.Second, "c waits", func() bool { return other.Stats().Waiters == 2 })
		locktest.Want(t, a.Do(locktest.Several("LOCK.MRELEASE", keys)...), ":3")
		if tokens := locktest.TokensOf(t, locktest.Receive(t, first, 10*time.Second), 3); howMany(tokens) < 2 {
			t.Errorf("got tokens %v", tokens)
		}
		b.Gone()
		b.Carrier.End(lockcmd.Release)
		if tokens := locktest.TokensOf(t, locktest.Receive(t, second, 10*time.Second), 3); howMany(tokens) < 2 {
			t.Errorf("got tokens %v", tokens)
		}
		if got := other.Stats().Waiters; got != 0 {
			t.Errorf("%d waiters", got)
		}
		third := startQuorum(t, other, keys)
		c.Gone()
		c.Carrier.End(lockcmd.Release)
		locktest.WantPrefix(t, locktest.Receive(t, third, 10*time.Second), "*3\r\n")
	})
}

// startQuorum starts a MACQUIRE that waits, on a new connection.
func startQuorum(t *testing.T, s *lockcmd.Service, keys []string) <-chan string {
	t.Helper()
	reply := locktest.Connect(t, s).Start(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "2", "BLOCK", "0")...)
	locktest.Eventually(t, 5*time.Second, "it waits", func() bool { return s.Stats().Waiters == 1 })
	return reply
}

// TestQuorumHasOneHolder: Callers on two Leashes want a quorum of the same keys. All get it in
// turn, and only one has it at a time.
func TestQuorumHasOneHolder(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKeys(5)
		var mu sync.Mutex
		holders, most := 0, 0
		var errors []string
		var wg sync.WaitGroup
		for n := range 6 {
			c := locktest.Connect(t, []*lockcmd.Service{one, other}[n%2])
			wg.Go(func() {
				for range 5 {
					reply := c.Do(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "3", "BLOCK", "60000")...)
					mu.Lock()
					if holders++; strings.Count(reply, "\r\n:") < 3 {
						errors = append(errors, reply)
					}
					most = max(most, holders)
					mu.Unlock()
					<-time.After(time.Millisecond)
					mu.Lock()
					holders--
					mu.Unlock()
					if got := c.Do(locktest.Several("LOCK.MRELEASE", keys)...); got < ":3" {
						mu.Lock()
						errors = append(errors, got)
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if most != 1 || len(errors) > 0 {
			t.Errorf("%d held most at once; %q", most, errors)
		}
		for _, key := range keys {
			locktest.Eventually(t, 5*time.Second, "nothing stays", func() bool { return !locktest.Exists(t, rdb, key) })
		}
	})
}

// TestQuorumAndLosses: The loss of a key above the quorum is not reported. The loss of a key below
// it is reported, and then the other keys are released.
func TestQuorumAndLosses(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(5)
		for _, ownersWay := range []string{"CLOSE", "ERROR"} {
			c := locktest.Connect(t, s)
			c.AllOfAQuorum(keys, "QUORUM", "3", "ONLOSS", ownersWay)
			del := func(n int) {
				t.Helper()
				if err := rdb.Del(t.Context(), keys[n]).Err(); err != nil {
					t.Fatal(err)
				}
			}
			del(0)
			del(4)
			s.Watchdog.CheckAll()
			locktest.Eventually(t, 5*time.Second, "two are lost", func() bool { return s.Stats().Holds == 3 })
			select {
			case loss := <-c.Losses:
				t.Fatalf("told of the loss of %s", loss)
			case <-time.After(100 * time.Millisecond):
			}
			locktest.Want(t, c.Do("LOCK.RELEASE", keys[0]), "-"+refusal.NotHeld)
			for _, key := range keys[1:4] {
				if !locktest.Exists(t, rdb, key) {
					t.Fatalf("%s is gone too", key)
				}
			}
			del(2)
			s.Watchdog.CheckAll()
			locktest.Eventually(t, 5*time.Second, "the rest is released", func() bool {
				return !locktest.Exists(t, rdb, keys[1]) && !locktest.Exists(t, rdb, keys[3])
			})
			locktest.Eventually(t, 5*time.Second, "nothing is held", func() bool { return s.Stats().Holds == 0 })
			if ownersWay == "CLOSE" {
				var told []string
				for range 3 {
					told = append(told, locktest.Receive(t, c.Losses, 5*time.Second))
				}
				slices.Sort(told)
				wanted := []string{keys[1] + " quorum", keys[2] + " gone", keys[3] + " quorum"}
				if !slices.Equal(told, wanted) {
					t.Errorf("told of %q, want %q", told, wanted)
				}
				continue
			}
			locktest.Want(t, c.Do("LOCK.RELEASE", keys[1]), "-LOCKLOST "+keys[1]+" quorum")
			locktest.Want(t, c.Do(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "3")...),
				"-LOCKLOST "+keys[2]+" gone")
		}
	})
}

// TestQuorumReleasedByItsOwner: A key that its owner releases is no loss. It no longer counts for
// the quorum.
func TestQuorumReleasedByItsOwner(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKeys(3)
		c := locktest.Connect(t, s)
		c.AllOfAQuorum(keys, "QUORUM", "2")
		locktest.Want(t, c.Do("LOCK.RELEASE", keys[0]), ":1")
		locktest.Want(t, c.Do("LOCK.RELEASE", keys[1]), ":1")
		if left := locktest.NumberOf(t, c.Do("LOCK.TTL", keys[2])); left < 1 {
			t.Errorf("the third's TTL is %d", left)
		}
		if err := rdb.Del(t.Context(), keys[2]).Err(); err != nil {
			t.Fatal(err)
		}
		s.Watchdog.CheckAll()
		locktest.Want(t, locktest.Receive(t, c.Losses, 5*time.Second), keys[2]+" gone")
	})
}

// TestQuorumWithoutANode: A master does not answer. MACQUIRE gets a quorum from the other masters
// without a long wait. What the silent master may have granted is undone.
func TestQuorumWithoutANode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: time.Minute}) // no failover
	rdb := locktest.DialCluster(t, cluster.Addrs()...)
	s := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 6 * time.Second, UpstreamTimeout: 6 * time.Second})
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
	began := time.Now()
	tokens := locktest.TokensOf(t, a.Do(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "2")...), 3)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the quorum took %v", took)
	}
	if howMany(tokens) != 2 || tokens[1] != 0 {
		t.Errorf("got tokens %v", tokens)
	}
	b := locktest.Connect(t, s)
	locktest.WantPrefix(t, b.Do(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "3")...), "-LOCKTIMEOUT ")
	waits := b.Start(locktest.Several("LOCK.MACQUIRE", keys, "QUORUM", "2", "BLOCK", "0")...)
	locktest.Eventually(t, 5*time.Second, "b waits", func() bool { return s.Stats().Waiters == 1 })
	locktest.Want(t, a.Do(locktest.Several("LOCK.MRELEASE", []string{keys[0], keys[2]})...), ":2")
	if tokens := locktest.TokensOf(t, locktest.Receive(t, waits, 10*time.Second), 3); howMany(tokens) != 2 {
		t.Errorf("got tokens %v", tokens)
	}
	if err := stopped.Resume(); err != nil {
		t.Fatal(err)
	}
	locktest.Eventually(t, 20*time.Second, "what the stopped node granted is undone", func() bool {
		return !locktest.Exists(t, rdb, keys[1])
	})
	locktest.Want(t, b.Do(locktest.Several("LOCK.MRELEASE", keys)...), ":2")
}

// TestQuorumHidesLateGrants: Keys that are granted after a MACQUIRE has ended are released. Its
// client cannot release them.
func TestQuorumHidesLateGrants(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		c := locktest.Connect(t, s)
		late := c.AcquireOf(script.Plain, key, "")
		token := c.Send(late).Token
		h := c.HoldAs(t, hold.Grant{
			Key: key, Mode: script.Plain, Owner: late.Grant.Owner, Token: token, TTL: time.Minute, Group: &hold.Group{},
		}, time.Now().Add(time.Minute))
		for _, line := range []string{"LOCK.RELEASE " + key, "LOCK.EXTEND " + key + " 1000"} {
			locktest.WantPrefix(t, c.Do(strings.Fields(line)...), "-LOCKNOTHELD ")
		}
		locktest.Want(t, c.Do("LOCK.TTL", key), ":-2")
		locktest.Want(t, c.Do("LOCK.MRELEASE", "1", key), ":0")
		locktest.Want(t, c.Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
		s.Releaser.PutBack(h, "")
		locktest.Eventually(t, locktest.Soon, "it is released", func() bool { return !locktest.Exists(t, rdb, key) })
	})
}
