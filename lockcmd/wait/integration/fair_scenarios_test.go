package wait_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// These are scenarios of Redisson's own tests of its fair lock, with shorter times.

func TestFairLeasesEndInTurn(t *testing.T) { // testLeaseTimeout
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		holder := locktest.Connect(t, s)
		holder.Token(key, "FAIR", "LEASE", "4000")
		const n = 2
		tokens, replies := make([]int64, n), make([]<-chan string, n)
		for i := range n {
			replies[i] = locktest.Connect(t, s).WaitFair(rdb, 0, key, "BLOCK", "0", "LEASE", "4000")
			locktest.Eventually(t, time.Second, "it waits or has the lock", func() bool {
				return s.Stats().Waiters+s.Stats().Acquires > int64(i+1)
			})
		}
		for i := range n {
			tokens[i] = locktest.TokenOf(t, locktest.Receive(t, replies[i], 5*time.Second))
		}
		if !slices.IsSorted(tokens) {
			t.Errorf("got tokens %v", tokens)
		}
		locktest.Eventually(t, 2*time.Second, "the last lease ends",
			func() bool { return !locktest.Exists(t, rdb, key) })
		locktest.WantNothingLeft(t, rdb, key)
	})
}

func TestFairManyClientsOneAtATime(t *testing.T) { // testMultipleLocks, testConcurrency_…
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		services, key := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{})}, locktest.NewKey()
		const clients, rounds = 30, 4
		var inside, done atomic.Int64
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				c := locktest.Connect(t, services[i%2])
				for range rounds {
					if reply := c.Do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0"); !strings.HasPrefix(reply, ":") {
						t.Errorf("acquire: got %q", reply)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two holders")
					}
					<-time.After(time.Millisecond)
					inside.Add(-1)
					done.Add(1)
					locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
				}
			})
		}
		all.Wait()
		if done.Load() != clients*rounds {
			t.Errorf("got %d turns, want %d", done.Load(), clients*rounds)
		}
		locktest.WantNothingLeft(t, rdb, key)
	})
}

// testWaitTimeoutDrift, testLockAcquiredTimeoutDrift, testFirstThreadDeathTimeoutDrift
func TestFairScoresDoNotDrift(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		rdb.HSet(ctx, key, "java:1", "1")
		rdb.PExpire(ctx, key, 30*time.Second)
		dead := locktest.NewJavaFair(t, rdb, key, "java:dead")
		dead.Attempt()
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				for range 10 {
					c := locktest.Connect(t, s)
					locktest.Want(t, c.Do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "50"), "$-1")
					c.Carrier.End(lockcmd.Release)
				}
				if i%2 == 0 {
					j := locktest.NewJavaFair(t, rdb, key, "java:"+string(rune('a'+i)))
					j.Attempt()
					j.GiveUp()
				}
			})
		}
		all.Wait()
		if queue := locktest.FairOrder(rdb, key); !slices.Equal(queue, []string{"java:dead"}) {
			t.Fatalf("got queue %v", queue)
		}
		c := locktest.Connect(t, s)
		reply := c.WaitFair(rdb, 2, key, "OWNER", "me", "BLOCK", "0")
		most := time.Now().UnixMilli() + 30000 + 2*300000
		if got := locktest.FairScore(rdb, key, "me"); got > most {
			t.Errorf("the score of the second is %d ms too far ahead", got-most)
		}
		if got := locktest.FairScore(rdb, key, "java:dead"); got > most-300000 {
			t.Errorf("the score of the first is %d ms too far ahead", got-most+300000)
		}
		// its turn by the score
		rdb.ZAdd(ctx, script.QueueKeys(key)[1], redis.Z{Score: float64(time.Now().UnixMilli()), Member: "java:dead"})
		locktest.NewJavaFair(t, rdb, key, "java:1").Unlock()
		locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothingLeft(t, rdb, key)
	})
}

// testAbandonedTimeoutDrift_Descrete, testLockAcquiredBooleanTimeoutDrift_Descrete
func TestFairAbandonedWaitersArePassed(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		holder := locktest.NewJavaFair(t, rdb, key, "java:1")
		holder.Lease = 6 * time.Second
		holder.TryLock()
		// each adds 100 ms and then sends nothing more
		for _, name := range []string{"java:2", "java:3", "java:4"} {
			j := locktest.NewJavaFair(t, rdb, key, name)
			j.Wait = 100 * time.Millisecond
			j.Attempt()
		}
		c := locktest.Connect(t, s)
		began := time.Now()
		reply := c.WaitFair(rdb, 4, key, "BLOCK", "0")
		locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
		if took := time.Since(began); took < 300*time.Millisecond || took > locktest.Soon {
			t.Errorf("they were passed after %v", took)
		}
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothingLeft(t, rdb, key)
	})
}

func TestFairTryAndBlock(t *testing.T) { // testTryLockNonDelayed, testTryLockWait
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key, "FAIR")
		began := time.Now()
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "300"), "$-1")
		if took := time.Since(began); took < 300*time.Millisecond || took > locktest.Soon {
			t.Errorf("BLOCK 300 took %v", took)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		b.Token(key, "FAIR")
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothingLeft(t, rdb, key)
	})
}

// testForceUnlock, testExpire, testAutoExpire, testUnlockFail
func TestFairForcedAndExpired(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key, "FAIR", "LEASE", "4000")
		began := time.Now()
		reply := b.WaitFair(rdb, 1, key, "BLOCK", "0")
		locktest.TokenOf(t, locktest.Woken(t, reply))
		if took := time.Since(began); took > locktest.Soon {
			t.Errorf("it took %v to get a lock whose lease was over", took)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld) // Redisson returns no error here
		locktest.Want(t, c.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		reply = c.WaitFair(rdb, 1, key, "BLOCK", "0")
		locktest.NewJavaFair(t, rdb, key, "").Run(locktest.JavaForceUnlock)
		locktest.TokenOf(t, locktest.Woken(t, reply))
		s.Watchdog.CheckAll()
		locktest.Want(t, locktest.Receive(t, b.Losses, 5*time.Second), key+" gone")
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothingLeft(t, rdb, key)
	})
}

// testConcurrency_MultiInstance, with one JVM
func TestFairAlternatesWithJava(t *testing.T) {
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		var inside atomic.Int64
		var all sync.WaitGroup
		round := func() {
			if inside.Add(1) != 1 {
				t.Error("two holders")
			}
			<-time.After(time.Millisecond)
			inside.Add(-1)
		}
		const clients, rounds = 8, 5
		for i := range clients {
			all.Go(func() {
				j, c := locktest.NewJavaFair(t, rdb, key, "java:"+string(rune('a'+i))), locktest.Connect(t, s)
				for range rounds {
					if i%2 == 0 {
						locktest.Receive(t, j.Lock(), time.Minute)
						round()
						j.Unlock()
						continue
					}
					c.Token(key, "FAIR", "BLOCK", "60000")
					round()
					locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
				}
			})
		}
		all.Wait()
		locktest.WantNothingLeft(t, rdb, key)
	})
}
