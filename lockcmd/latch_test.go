package lockcmd_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

func TestLatchIsRedissonsCountDownLatch(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		a, heard := locktest.Connect(t, s), locktest.ListenTo(t, rdb, "redisson_countdownlatch__channel__{"+key+"}")
		locktest.Want(t, a.Do("LATCH.GET", key), ":0")
		locktest.Want(t, a.Do("LATCH.DOWN", key), ":0") // a latch that does not exist is at zero and stays there
		locktest.Want(t, a.Do("LATCH.AWAIT", key), ":1")
		if locktest.Exists(t, rdb, key) {
			t.Error("counting down made a latch")
		}
		locktest.Want(t, a.Do("LATCH.SET", key, "2"), ":1")
		locktest.WantMessage(t, heard, "1")
		locktest.Want(t, a.Do("LATCH.SET", key, "3"), ":0")
		locktest.Want(t, rdb.Get(ctx, key).Val(), "2")
		locktest.Want(t, a.Do("LATCH.GET", key), ":2")
		locktest.Want(t, a.Do("LATCH.AWAIT", key), ":0")
		locktest.Want(t, a.Do("LATCH.DOWN", key), ":1")
		locktest.Want(t, a.Do("LATCH.DOWN", key), ":0")
		locktest.WantMessage(t, heard, "0")
		if locktest.Exists(t, rdb, key) {
			t.Error("the latch is at zero, and still there")
		}
		rdb.Set(ctx, key, "-1", 0) // Redisson never writes this value, but it would count on from it
		locktest.Want(t, a.Do("LATCH.DOWN", key), ":0")
		locktest.Want(t, a.Do("LATCH.SET", key, "0"), ":1")
		locktest.WantMessage(t, heard, "1")
		locktest.Want(t, a.Do("LATCH.AWAIT", key), ":1")
		locktest.Want(t, a.Do("LATCH.SET", key, "1"), ":0")
		rdb.Set(ctx, key, "text", 0)
		locktest.Want(t, a.Do("LATCH.GET", key), "-"+refusal.NotInteger)
		locktest.Want(t, a.Do("LATCH.DOWN", key), "-"+refusal.NotInteger)
		locktest.Want(t, a.Do("LATCH.SET", key, "1"), ":0")
		locktest.WantNoMessage(t, heard)
	})
}

func TestLatchOpensForAllWaiters(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes, key := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)}, locktest.NewKey()
		a := locktest.Connect(t, leashes[0])
		locktest.Want(t, a.Do("LATCH.SET", key, "2"), ":1")
		const each = 20
		var replies []<-chan string
		for _, s := range leashes {
			for i := range each {
				replies = append(replies, locktest.Connect(t, s).StartInQueue(s, i+1, latchOf(key), "LATCH.AWAIT", key,
					"BLOCK", "0"))
			}
		}
		locktest.Eventually(t, 5*time.Second, "both listen", func() bool {
			return locktest.Listeners(t, rdb, script.LatchChannel(key)) == 2
		})
		locktest.Want(t, a.Do("LATCH.DOWN", key), ":1")
		<-time.After(50 * time.Millisecond)
		for _, r := range replies {
			if len(r) != 0 {
				t.Fatal("a latch at 1 is open")
			}
		}
		locktest.Want(t, a.Do("LATCH.DOWN", key), ":0")
		for _, r := range replies {
			locktest.Want(t, locktest.Woken(t, r), ":1")
		}
		for _, s := range leashes {
			if s.Waits.InQueue(latchOf(key)) != 0 || s.Stats().Waiters != 0 {
				t.Error("somebody still waits")
			}
		}
	})
}

func TestLatchBlockEndsInTime(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a := locktest.Connect(t, s)
		a.Do("LATCH.SET", key, "1")
		began := time.Now()
		locktest.Want(t, a.Do("LATCH.AWAIT", key, "BLOCK", "300"), ":0")
		if took := time.Since(began); took < 300*time.Millisecond || took > locktest.Soon {
			t.Errorf("BLOCK 300 took %v", took)
		}
	})
}

// TestLatchWokenByRedisson: A waiter is woken by the commands that a Java service sends to count
// down.
func TestLatchWokenByRedisson(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), context.Background()
		for _, publish := range []func(context.Context, string, any) *redis.IntCmd{rdb.Publish, rdb.SPublish} {
			key := locktest.NewKey()
			rdb.Set(ctx, key, "1", 0)
			reply := locktest.Connect(t, s).StartInQueue(s, 1, latchOf(key), "LATCH.AWAIT", key, "BLOCK", "0")
			locktest.Eventually(t, 5*time.Second, "it listens", func() bool {
				return locktest.Listeners(t, rdb, script.LatchChannel(key)) == 1
			})
			rdb.Del(ctx, key)
			publish(ctx, script.LatchChannel(key), "0")
			locktest.Want(t, locktest.Woken(t, reply), ":1")
		}
	})
}

// TestLatchOfANameWithBraces: On a cluster, the channel of such a latch belongs to another slot
// than the latch. Waiters are still woken.
func TestLatchOfANameWithBraces(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			"{"+locktest.NewKey()+"}:latch"
		a := locktest.Connect(t, s)
		locktest.Want(t, a.Do("LATCH.SET", key, "1"), ":1")
		reply := locktest.Connect(t, other).StartInQueue(other, 1, latchOf(key), "LATCH.AWAIT", key, "BLOCK", "0")
		locktest.Eventually(t, 5*time.Second, "it listens", func() bool {
			return locktest.Listeners(t, rdb, script.LatchChannel(key)) == 1
		})
		locktest.Want(t, a.Do("LATCH.DOWN", key), ":0")
		locktest.Want(t, locktest.Woken(t, reply), ":1")
	})
}

func TestR10PermitQueuesHaveKeysOfOneSlot(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		a := locktest.Connect(t, s)
		for i, key := range []string{"a}b", "a{b", "{}a", ""} {
			for _, args := range [][]string{
				{"SEM.TAKE", key}, {"SEM.GIVE", key, "0"}, {"LATCH.SET", key, strconv.Itoa(i)}, {"LATCH.DOWN", key},
				{"LATCH.GET", key}, {"LATCH.AWAIT", key},
			} {
				if got := a.Do(args...); (got == "-"+refusal.Slots) != s.Redis.IsCluster {
					t.Errorf("%q: got %q", args, got)
				}
			}
			rdb.Del(t.Context(), key)
		}
	})
}

func TestR8CountersLieInTheirDatabase(t *testing.T) {
	t.Parallel()
	in, key := locktest.Databases(t), locktest.NewKey()
	s := locktest.Start(t, in(0), lockcmd.Config{})
	a, b := locktest.ConnectTo(t, s, 0), locktest.ConnectTo(t, s, 3)
	locktest.Want(t, a.Do("SEM.GIVE", key), ":1")
	locktest.Want(t, b.Do("SEM.TAKE", key), ":0")
	locktest.Want(t, b.Do("LATCH.SET", "latch"+key, "1"), ":1")
	locktest.Want(t, a.Do("LATCH.GET", "latch"+key), ":0")
	id := wait.QueueID{Lock: script.Lock{DB: 3, Key: key}, Channel: script.PermitChannel(key)}
	reply := b.StartInQueue(s, 1, id, "SEM.TAKE", key, "BLOCK", "0")
	locktest.Want(t, a.Do("SEM.GIVE", key), ":2") // published on the same channel
	locktest.Want(t, locktest.ConnectTo(t, s, 3).Do("SEM.GIVE", key), ":1")
	locktest.Want(t, locktest.Receive(t, reply, 5*time.Second), ":1")
}

// TestLatchOfManyCounters: On two Leashes, as many clients count down as wait, all at once. Exactly
// one of them opens the latch. (Redisson: RedissonCountDownLatchConcurrentTest.)
func TestLatchOfManyCounters(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes, key := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{})}, locktest.NewKey()
		const n = 24
		locktest.Want(t, locktest.Connect(t, leashes[0]).Do("LATCH.SET", key, strconv.Itoa(n)), ":1")
		replies, opened := make(chan string, n), make(chan string, n)
		for i := range n {
			c, counter := locktest.Connect(t, leashes[i%2]), locktest.Connect(t, leashes[i/2%2])
			go func() { opened <- c.Do("LATCH.AWAIT", key, "BLOCK", "50000") }()
			go func() { replies <- counter.Do("LATCH.DOWN", key) }()
		}
		counts := make(map[string]int)
		for range n {
			counts[locktest.Receive(t, replies, 5*time.Second)]++
		}
		for i := range n {
			if counts[":"+strconv.Itoa(i)] != 1 {
				t.Fatalf("got counts %v, want each from 0 to %d once", counts, n-1)
			}
		}
		for range n {
			locktest.Want(t, locktest.Receive(t, opened, 5*time.Second), ":1")
		}
		if locktest.Exists(t, rdb, key) {
			t.Error("the latch is still there")
		}
	})
}
