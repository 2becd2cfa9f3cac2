package lockcmd

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// These are scenarios of Redisson's own tests of its fair lock, with shorter times.

func TestFairLeasesEndInTurn(t *testing.T) { // testLeaseTimeout
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		holder := connect(t, s)
		holder.token(key, "FAIR", "LEASE", "4000")
		const n = 2
		tokens, replies := make([]int64, n), make([]<-chan string, n)
		for i := range n {
			replies[i] = connect(t, s).waitFair(rdb, 0, key, "BLOCK", "0", "LEASE", "4000")
			eventually(t, time.Second, "it waits or has the lock", func() bool {
				return s.Stats().Waiters+s.Stats().Acquires > int64(i+1)
			})
		}
		for i := range n {
			tokens[i] = tokenOf(t, receive(t, replies[i], 5*time.Second))
		}
		if !slices.IsSorted(tokens) {
			t.Errorf("got tokens %v", tokens)
		}
		eventually(t, 2*time.Second, "the last lease ends", func() bool { return !exists(t, rdb, key) })
		wantNothingLeft(t, rdb, key)
	})
}

func TestFairManyClientsOneAtATime(t *testing.T) { // testMultipleLocks, testConcurrency_…
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		services, key := []*Service{leash(t, rdb, Config{}), leash(t, rdb, Config{})}, newKey()
		const clients, rounds = 30, 4
		var inside, done atomic.Int64
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				c := connect(t, services[i%2])
				for range rounds {
					if reply := c.do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0"); !strings.HasPrefix(reply, ":") {
						t.Errorf("acquire: got %q", reply)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two holders")
					}
					<-time.After(time.Millisecond)
					inside.Add(-1)
					done.Add(1)
					want(t, c.do("LOCK.RELEASE", key), ":1")
				}
			})
		}
		all.Wait()
		if done.Load() != clients*rounds {
			t.Errorf("got %d turns, want %d", done.Load(), clients*rounds)
		}
		wantNothingLeft(t, rdb, key)
	})
}

// testWaitTimeoutDrift, testLockAcquiredTimeoutDrift, testFirstThreadDeathTimeoutDrift
func TestFairScoresDoNotDrift(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		rdb.HSet(ctx, key, "java:1", "1")
		rdb.PExpire(ctx, key, 30*time.Second)
		dead := java(t, rdb, key, "java:dead")
		dead.attempt()
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				for range 10 {
					c := connect(t, s)
					want(t, c.do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "50"), "$-1")
					c.carrier.End(Release)
				}
				if i%2 == 0 {
					j := java(t, rdb, key, "java:"+string(rune('a'+i)))
					j.attempt()
					j.giveUp()
				}
			})
		}
		all.Wait()
		if queue := order(rdb, key); !slices.Equal(queue, []string{"java:dead"}) {
			t.Fatalf("got queue %v", queue)
		}
		c := connect(t, s)
		reply := c.waitFair(rdb, 2, key, "OWNER", "me", "BLOCK", "0")
		most := time.Now().UnixMilli() + 30000 + 2*300000
		if got := score(rdb, key, "me"); got > most {
			t.Errorf("the score of the second is %d ms too far ahead", got-most)
		}
		if got := score(rdb, key, "java:dead"); got > most-300000 {
			t.Errorf("the score of the first is %d ms too far ahead", got-most+300000)
		}
		// its turn by the score
		rdb.ZAdd(ctx, script.QueueKeys(key)[1], redis.Z{Score: float64(time.Now().UnixMilli()), Member: "java:dead"})
		java(t, rdb, key, "java:1").unlock()
		tokenOf(t, receive(t, reply, 3*time.Second))
		want(t, c.do("LOCK.RELEASE", key), ":1")
		wantNothingLeft(t, rdb, key)
	})
}

// testAbandonedTimeoutDrift_Descrete, testLockAcquiredBooleanTimeoutDrift_Descrete
func TestFairAbandonedWaitersArePassed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		holder := java(t, rdb, key, "java:1")
		holder.lease = 6 * time.Second
		holder.tryLock()
		// each adds 100 ms and then sends nothing more
		for _, name := range []string{"java:2", "java:3", "java:4"} {
			j := java(t, rdb, key, name)
			j.wait = 100 * time.Millisecond
			j.attempt()
		}
		c := connect(t, s)
		began := time.Now()
		reply := c.waitFair(rdb, 4, key, "BLOCK", "0")
		tokenOf(t, receive(t, reply, 5*time.Second))
		if took := time.Since(began); took < 300*time.Millisecond || took > soon {
			t.Errorf("they were passed after %v", took)
		}
		want(t, c.do("LOCK.RELEASE", key), ":1")
		wantNothingLeft(t, rdb, key)
	})
}

func TestFairTryAndBlock(t *testing.T) { // testTryLockNonDelayed, testTryLockWait
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		a, b := connect(t, s), connect(t, s)
		a.token(key, "FAIR")
		began := time.Now()
		want(t, b.do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "300"), "$-1")
		if took := time.Since(began); took < 300*time.Millisecond || took > soon {
			t.Errorf("BLOCK 300 took %v", took)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		b.token(key, "FAIR")
		want(t, b.do("LOCK.RELEASE", key), ":1")
		wantNothingLeft(t, rdb, key)
	})
}

// testForceUnlock, testExpire, testAutoExpire, testUnlockFail
func TestFairForcedAndExpired(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		a, b, c := connect(t, s), connect(t, s), connect(t, s)
		a.token(key, "FAIR", "LEASE", "4000")
		began := time.Now()
		reply := b.waitFair(rdb, 1, key, "BLOCK", "0")
		tokenOf(t, woken(t, reply))
		if took := time.Since(began); took > soon {
			t.Errorf("it took %v to get a lock whose lease was over", took)
		}
		want(t, a.do("LOCK.RELEASE", key), "-"+refusal.NotHeld) // Redisson returns no error here
		want(t, c.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		reply = c.waitFair(rdb, 1, key, "BLOCK", "0")
		java(t, rdb, key, "").run(javaForceUnlock)
		tokenOf(t, woken(t, reply))
		s.Watchdog.CheckAll()
		want(t, receive(t, b.losses, 5*time.Second), key+" gone")
		want(t, c.do("LOCK.RELEASE", key), ":1")
		wantNothingLeft(t, rdb, key)
	})
}

// testConcurrency_MultiInstance, with one JVM
func TestFairAlternatesWithJava(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
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
				j, c := java(t, rdb, key, "java:"+string(rune('a'+i))), connect(t, s)
				for range rounds {
					if i%2 == 0 {
						receive(t, j.lock(), time.Minute)
						round()
						j.unlock()
						continue
					}
					c.token(key, "FAIR", "BLOCK", "60000")
					round()
					want(t, c.do("LOCK.RELEASE", key), ":1")
				}
			})
		}
		all.Wait()
		wantNothingLeft(t, rdb, key)
	})
}
