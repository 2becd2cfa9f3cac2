package lockcmd_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestSemaphoreTotal(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		a, heard := locktest.Connect(t, s), locktest.ListenTo(t, rdb, "redisson_sc:{"+key+"}")
		a.WantSemaphoreInfo(key, 0, 0, 0)
		locktest.Want(t, a.Do("SEM.INIT", key, "3"), ":1")
		locktest.WantMessage(t, heard, "3")
		locktest.Want(t, a.Do("SEM.INIT", key, "5"), ":0")
		locktest.Want(t, rdb.Get(ctx, key).Val(), "3")
		locktest.JavaPermit(t, rdb, key, locktest.PermitNumber(1), time.Time{})
		locktest.JavaPermit(t, rdb, key, locktest.PermitNumber(2), time.Now().Add(time.Hour))
		a.WantSemaphoreInfo(key, 3, 1, 2)
		locktest.Want(t, a.Do("SEM.RESIZE", key, "3"), ":1") // unchanged, so no message is sent
		locktest.Want(t, a.Do("SEM.RESIZE", key, "10"), ":8")
		locktest.WantMessage(t, heard, "10")
		locktest.Want(t, a.Do("SEM.RESIZE", key, "1"), ":-1") // fewer than the permits in use
		locktest.WantMessage(t, heard, "1")
		a.WantSemaphoreInfo(key, 1, -1, 2)
		locktest.Want(t, a.Do("SEM.TAKE", key), ":0")
		locktest.WantNoMessage(t, heard)
		fresh := locktest.NewKey()
		locktest.Want(t, a.Do("SEM.RESIZE", fresh, "7"), ":7")
		locktest.Want(t, rdb.Get(ctx, fresh).Val(), "7")
		rdb.Del(ctx, key)
		rdb.RPush(ctx, key, "x")
		for _, args := range [][]string{{"SEM.INIT", key, "1"}, {"SEM.RESIZE", key, "1"}, {"SEM.INFO", key}} {
			locktest.Want(t, a.Do(args...), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		}
		rdb.Del(ctx, key, script.PermitsKey(key))
		rdb.Set(ctx, script.PermitsKey(key), "x", 0)
		locktest.Want(t, a.Do("SEM.RESIZE", key, "1"),
			"-WRONGTYPE Operation against a key holding the wrong kind of value")
		if locktest.Exists(t, rdb, key) {
			t.Error("a refused command had an effect")
		}
	})
}

// TestSemaphoreReapsExpiredPermits: A permit whose lease has expired is available again, whoever
// acquired it.
func TestSemaphoreReapsExpiredPermits(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		a := locktest.Connect(t, s)
		const total = 1500 // more than one script call reaps
		locktest.Want(t, a.Do("SEM.INIT", key, strconv.Itoa(total)), ":1")
		rdb.DecrBy(ctx, key, total)
		for i := range total {
			rdb.ZAdd(ctx, script.PermitsKey(key), redis.Z{Score: float64(i + 1), Member: fmt.Sprintf("%016d", i)})
		}
		heard := locktest.ListenTo(t, rdb, script.PermitChannel(key))
		a.WantSemaphoreInfo(key, total, total, 0)
		locktest.Want(t, rdb.Get(ctx, key).Val(), "0") // SEM.INFO changes nothing
		locktest.Want(t, a.Do("SEM.RESIZE", key, strconv.Itoa(total)), ":1000")
		locktest.WantMessage(t, heard, "1000")
		locktest.Want(t, a.Do("SEM.RESIZE", key, strconv.Itoa(total)), ":1500")
		locktest.WantMessage(t, heard, "1500")
		if n := rdb.ZCard(ctx, script.PermitsKey(key)).Val(); n != 0 {
			t.Errorf("%d permits are still out", n)
		}
	})
}

// TestSemaphoreResizeServesWaiters: A resize sends one message, which serves as many waiters as
// there are permits.
func TestSemaphoreResizeServesWaiters(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		key, a := locktest.Semaphore(t, s, 1), locktest.Connect(t, s)
		a.Permit(key)
		var replies []<-chan string
		for i := range 3 {
			replies = append(replies, locktest.Connect(t, other).StartInQueue(other, i+1, locktest.PermitsOf(key),
				"SEM.ACQUIRE", key,
				"BLOCK", "0"))
		}
		locktest.Eventually(t, 5*time.Second, "it listens", func() bool {
			return locktest.Listeners(t, rdb, script.PermitChannel(key)) == 1
		})
		locktest.Want(t, a.Do("SEM.RESIZE", key, "3"), ":2")
		locktest.PermitOf(t, locktest.Woken(t, replies[0]))
		locktest.PermitOf(t, locktest.Woken(t, replies[1]))
		_, _, _, waiters := locktest.Connect(t, other).SemaphoreInfo(key)
		if waiters != 1 || len(replies[2]) != 0 {
			t.Errorf("%d wait, want the third", waiters)
		}
		locktest.Want(t, a.Do("SEM.RESIZE", key, "4"), ":1")
		locktest.PermitOf(t, locktest.Receive(t, replies[2], 5*time.Second))
	})
}

// TestSemaphoreOfZeroAndOfTheMaximum: Semaphores of zero permits, and of the most that Redisson can
// count. (testZero, testConcurrencyLoopMax_MultiInstance)
func TestSemaphoreOfZeroAndOfTheMaximum(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{})}
		none, a := locktest.Semaphore(t, leashes[0], 0), locktest.Connect(t, leashes[0])
		a.WantSemaphoreInfo(none, 0, 0, 0)
		locktest.Want(t, a.Do("SEM.INIT", none, "1"), ":0")
		locktest.Want(t, a.Do("SEM.ACQUIRE", none), "$-1")
		locktest.Want(t, a.Do("SEM.TAKE", none), ":0")
		reply := a.StartInQueue(leashes[0], 1, locktest.PermitsOf(none), "SEM.ACQUIRE", none, "BLOCK", "0")
		locktest.Want(t, locktest.Connect(t, leashes[1]).Do("SEM.RESIZE", none, "1"), ":1")
		locktest.PermitOf(t, locktest.Receive(t, reply, 5*time.Second))
		a.WantSemaphoreInfo(none, 1, 0, 1)

		const all = math.MaxInt32
		most := locktest.Semaphore(t, leashes[0], all)
		locktest.Want(t, a.Do("SEM.ACQUIRE", most, "COUNT", "1001"), "-"+refusal.Count)
		var clients sync.WaitGroup
		for i := range 4 {
			clients.Go(func() {
				c := locktest.Connect(t, leashes[i%2])
				for range 10 {
					if reply := c.Do("SEM.ACQUIRE", most, "BLOCK", "0"); !locktest.PermitReply.MatchString(reply) {
						t.Errorf("got %q", reply)
					}
					if reply := c.Do("SEM.TAKE", most, "1000000"); reply != ":1" {
						t.Errorf("got %q", reply)
					}
					c.Do("SEM.GIVE", most, "1000000")
					if reply := c.Do("SEM.RELEASE", most); reply != ":1" {
						t.Errorf("got %q", reply)
					}
				}
			})
		}
		clients.Wait()
		a.WantSemaphoreInfo(most, all, all, 0)
		locktest.Want(t, a.Do("SEM.TAKE", most, strconv.Itoa(all)), ":1")
		locktest.Want(t, a.Do("SEM.TAKE", most), ":0")
	})
}
