package lockcmd

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(5)
		a, b := connect(t, s), connect(t, s)
		a.token(keys[0])
		a.token(keys[3])
		tokens := tokensOf(t, b.do(several("LOCK.MACQUIRE", keys, "QUORUM", "3")...), 5)
		if tokens[0] != 0 || tokens[3] != 0 || howMany(tokens) != 3 {
			t.Errorf("got tokens %v", tokens)
		}
		want(t, b.do(several("LOCK.MRELEASE", keys)...), ":3")
		want(t, b.do(several("LOCK.MACQUIRE", keys, "QUORUM", "4")...), null)
		for _, i := range []int{1, 2, 4} {
			if exists(t, rdb, keys[i]) {
				t.Errorf("key %d stayed taken", i)
			}
		}
		want(t, a.do(several("LOCK.MRELEASE", keys)...), ":2")
		if tokens := tokensOf(t, b.do(several("LOCK.MACQUIRE", keys, "QUORUM", "3")...), 5); howMany(tokens) != 5 {
			t.Errorf("got tokens %v, want all that are to be had", tokens)
		}
	})
}

func TestQuorumWaits(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKeys(3)
		a, b, c := connect(t, one), connect(t, other), connect(t, other)
		tokensOf(t, a.do(several("LOCK.MACQUIRE", keys, "QUORUM", "2")...), 3)
		began := time.Now()
		want(t, b.do(several("LOCK.MACQUIRE", keys, "QUORUM", "2", "BLOCK", "300")...), null)
		if took := time.Since(began); took < 300*time.Millisecond || took > soon {
			t.Errorf("BLOCK 300 took %v", took)
		}
		first := b.start(several("LOCK.MACQUIRE", keys, "QUORUM", "2", "BLOCK", "0")...)
		eventually(t, 5*time.Second, "b waits", func() bool { return other.Stats().Waiters == 1 })
		second := c.start(several("LOCK.MACQUIRE", keys, "QUORUM", "2", "BLOCK", "0")...)
		eventually(t, 5*time.Second, "c waits", func() bool { return other.Stats().Waiters == 2 })
		want(t, a.do(several("LOCK.MRELEASE", keys)...), ":3")
		if tokens := tokensOf(t, receive(t, first, 10*time.Second), 3); howMany(tokens) < 2 {
			t.Errorf("got tokens %v", tokens)
		}
		b.gone()
		b.carrier.End(Release)
		if tokens := tokensOf(t, receive(t, second, 10*time.Second), 3); howMany(tokens) < 2 {
			t.Errorf("got tokens %v", tokens)
		}
		if got := other.Stats().Waiters; got != 0 {
			t.Errorf("%d waiters", got)
		}
		third := startQuorum(t, other, keys)
		c.gone()
		c.carrier.End(Release)
		wantPrefix(t, receive(t, third, 10*time.Second), "*3\r\n")
	})
}

// startQuorum starts a MACQUIRE that waits, on a new connection.
func startQuorum(t *testing.T, s *Service, keys []string) <-chan string {
	t.Helper()
	reply := connect(t, s).start(several("LOCK.MACQUIRE", keys, "QUORUM", "2", "BLOCK", "0")...)
	eventually(t, 5*time.Second, "it waits", func() bool { return s.Stats().Waiters == 1 })
	return reply
}

// TestQuorumHasOneHolder: Callers on two Leashes want a quorum of the same keys. All get it in
// turn, and only one has it at a time.
func TestQuorumHasOneHolder(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		one, other, keys := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKeys(5)
		var mu sync.Mutex
		holders, most := 0, 0
		var errors []string
		var wg sync.WaitGroup
		for n := range 6 {
			c := connect(t, []*Service{one, other}[n%2])
			wg.Go(func() {
				for range 5 {
					reply := c.do(several("LOCK.MACQUIRE", keys, "QUORUM", "3", "BLOCK", "60000")...)
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
					if got := c.do(several("LOCK.MRELEASE", keys)...); got < ":3" {
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
			eventually(t, 5*time.Second, "nothing stays", func() bool { return !exists(t, rdb, key) })
		}
	})
}

// allOfAQuorum acquires keys with QUORUM and other options. It repeats that when a quorum has not
// waited for all keys.
func (c *conn) allOfAQuorum(keys []string, options ...string) {
	c.t.Helper()
	eventually(c.t, 5*time.Second, "the quorum has waited for all", func() bool {
		if !slices.Contains(tokensOf(c.t, c.do(several("LOCK.MACQUIRE", keys, options...)...), len(keys)), 0) {
			return true
		}
		c.do(several("LOCK.MRELEASE", keys)...)
		return false
	})
}

// TestQuorumAndLosses: The loss of a key above the quorum is not reported. The loss of a key below
// it is reported, and then the other keys are released.
func TestQuorumAndLosses(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(5)
		for _, ownersWay := range []string{"CLOSE", "ERROR"} {
			c := connect(t, s)
			c.allOfAQuorum(keys, "QUORUM", "3", "ONLOSS", ownersWay)
			del := func(n int) {
				t.Helper()
				if err := rdb.Del(t.Context(), keys[n]).Err(); err != nil {
					t.Fatal(err)
				}
			}
			del(0)
			del(4)
			s.Watchdog.CheckAll()
			eventually(t, 5*time.Second, "two are lost", func() bool { return s.Stats().Holds == 3 })
			select {
			case loss := <-c.losses:
				t.Fatalf("told of the loss of %s", loss)
			case <-time.After(100 * time.Millisecond):
			}
			want(t, c.do("LOCK.RELEASE", keys[0]), "-"+refusal.NotHeld)
			for _, key := range keys[1:4] {
				if !exists(t, rdb, key) {
					t.Fatalf("%s is gone too", key)
				}
			}
			del(2)
			s.Watchdog.CheckAll()
			eventually(t, 5*time.Second, "the rest is released", func() bool {
				return !exists(t, rdb, keys[1]) && !exists(t, rdb, keys[3])
			})
			eventually(t, 5*time.Second, "nothing is held", func() bool { return s.Stats().Holds == 0 })
			if ownersWay == "CLOSE" {
				var told []string
				for range 3 {
					told = append(told, receive(t, c.losses, 5*time.Second))
				}
				slices.Sort(told)
				wanted := []string{keys[1] + " quorum", keys[2] + " gone", keys[3] + " quorum"}
				if !slices.Equal(told, wanted) {
					t.Errorf("told of %q, want %q", told, wanted)
				}
				continue
			}
			want(t, c.do("LOCK.RELEASE", keys[1]), "-LOCKLOST "+keys[1]+" quorum")
			want(t, c.do(several("LOCK.MACQUIRE", keys, "QUORUM", "3")...), "-LOCKLOST "+keys[2]+" gone")
		}
	})
}

// TestQuorumReleasedByItsOwner: A key that its owner releases is no loss. It no longer counts for
// the quorum.
func TestQuorumReleasedByItsOwner(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, keys := leash(t, rdb, Config{}), newKeys(3)
		c := connect(t, s)
		c.allOfAQuorum(keys, "QUORUM", "2")
		want(t, c.do("LOCK.RELEASE", keys[0]), ":1")
		want(t, c.do("LOCK.RELEASE", keys[1]), ":1")
		if left := numberOf(t, c.do("LOCK.TTL", keys[2])); left < 1 {
			t.Errorf("the third's TTL is %d", left)
		}
		if err := rdb.Del(t.Context(), keys[2]).Err(); err != nil {
			t.Fatal(err)
		}
		s.Watchdog.CheckAll()
		want(t, receive(t, c.losses, 5*time.Second), keys[2]+" gone")
	})
}

// TestQuorumWithoutANode: A master does not answer. MACQUIRE gets a quorum from the other masters
// without a long wait. What the silent master may have granted is undone.
func TestQuorumWithoutANode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	rdb := dialCluster(t, cluster.Addrs()...)
	s := leash(t, rdb, Config{WatchdogTimeout: 6 * time.Second, UpstreamTimeout: 6 * time.Second})
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
	began := time.Now()
	tokens := tokensOf(t, a.do(several("LOCK.MACQUIRE", keys, "QUORUM", "2")...), 3)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the quorum took %v", took)
	}
	if howMany(tokens) != 2 || tokens[1] != 0 {
		t.Errorf("got tokens %v", tokens)
	}
	b := connect(t, s)
	wantPrefix(t, b.do(several("LOCK.MACQUIRE", keys, "QUORUM", "3")...), "-LOCKTIMEOUT ")
	waits := b.start(several("LOCK.MACQUIRE", keys, "QUORUM", "2", "BLOCK", "0")...)
	eventually(t, 5*time.Second, "b waits", func() bool { return s.Stats().Waiters == 1 })
	want(t, a.do(several("LOCK.MRELEASE", []string{keys[0], keys[2]})...), ":2")
	if tokens := tokensOf(t, receive(t, waits, 10*time.Second), 3); howMany(tokens) != 2 {
		t.Errorf("got tokens %v", tokens)
	}
	if err := stopped.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "what the stopped node granted is undone", func() bool {
		return !exists(t, rdb, keys[1])
	})
	want(t, b.do(several("LOCK.MRELEASE", keys)...), ":2")
}

// TestQuorumHidesLateGrants: Keys that are granted after a MACQUIRE has ended are released. Its
// client cannot release them.
func TestQuorumHidesLateGrants(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		c := connect(t, s)
		late := c.acquireOf(script.Plain, key, "")
		token := c.send(late).Token
		h := c.carrier.holdAs(t, hold.Grant{
			Key: key, Mode: script.Plain, Owner: late.Grant.Owner, Token: token, TTL: time.Minute, Group: &hold.Group{},
		}, time.Now().Add(time.Minute))
		for _, line := range []string{"LOCK.RELEASE " + key, "LOCK.EXTEND " + key + " 1000"} {
			wantPrefix(t, c.do(strings.Fields(line)...), "-LOCKNOTHELD ")
		}
		want(t, c.do("LOCK.TTL", key), ":-2")
		want(t, c.do("LOCK.MRELEASE", "1", key), ":0")
		want(t, c.do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
		s.Releaser.PutBack(h, "")
		eventually(t, soon, "it is released", func() bool { return !exists(t, rdb, key) })
	})
}
