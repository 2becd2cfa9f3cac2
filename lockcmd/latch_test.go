package lockcmd

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

func TestLatchIsRedissonsCountDownLatch(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		a, heard := connect(t, s), listenTo(t, rdb, "redisson_countdownlatch__channel__{"+key+"}")
		want(t, a.do("LATCH.GET", key), ":0")
		want(t, a.do("LATCH.DOWN", key), ":0") // a latch that does not exist is at zero and stays there
		want(t, a.do("LATCH.AWAIT", key), ":1")
		if exists(t, rdb, key) {
			t.Error("counting down made a latch")
		}
		want(t, a.do("LATCH.SET", key, "2"), ":1")
		wantMessage(t, heard, "1")
		want(t, a.do("LATCH.SET", key, "3"), ":0")
		want(t, rdb.Get(ctx, key).Val(), "2")
		want(t, a.do("LATCH.GET", key), ":2")
		want(t, a.do("LATCH.AWAIT", key), ":0")
		want(t, a.do("LATCH.DOWN", key), ":1")
		want(t, a.do("LATCH.DOWN", key), ":0")
		wantMessage(t, heard, "0")
		if exists(t, rdb, key) {
			t.Error("the latch is at zero, and still there")
		}
		rdb.Set(ctx, key, "-1", 0) // Redisson never writes this value, but it would count on from it
		want(t, a.do("LATCH.DOWN", key), ":0")
		want(t, a.do("LATCH.SET", key, "0"), ":1")
		wantMessage(t, heard, "1")
		want(t, a.do("LATCH.AWAIT", key), ":1")
		want(t, a.do("LATCH.SET", key, "1"), ":0")
		rdb.Set(ctx, key, "text", 0)
		want(t, a.do("LATCH.GET", key), "-"+refusal.NotInteger)
		want(t, a.do("LATCH.DOWN", key), "-"+refusal.NotInteger)
		want(t, a.do("LATCH.SET", key, "1"), ":0")
		wantNoMessage(t, heard)
	})
}

func TestLatchOpensForAllWaiters(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes, key := []*Service{leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries)}, newKey()
		a := connect(t, leashes[0])
		want(t, a.do("LATCH.SET", key, "2"), ":1")
		const each = 20
		var replies []<-chan string
		for _, s := range leashes {
			for i := range each {
				replies = append(replies, connect(t, s).startInQueue(s, i+1, latchOf(key), "LATCH.AWAIT", key,
					"BLOCK", "0"))
			}
		}
		eventually(t, 5*time.Second, "both listen", func() bool {
			return listeners(t, rdb, script.LatchChannel(key)) == 2
		})
		want(t, a.do("LATCH.DOWN", key), ":1")
		<-time.After(50 * time.Millisecond)
		for _, r := range replies {
			if len(r) != 0 {
				t.Fatal("a latch at 1 is open")
			}
		}
		want(t, a.do("LATCH.DOWN", key), ":0")
		for _, r := range replies {
			want(t, woken(t, r), ":1")
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		a := connect(t, s)
		a.do("LATCH.SET", key, "1")
		began := time.Now()
		want(t, a.do("LATCH.AWAIT", key, "BLOCK", "300"), ":0")
		if took := time.Since(began); took < 300*time.Millisecond || took > soon {
			t.Errorf("BLOCK 300 took %v", took)
		}
	})
}

// TestLatchWokenByRedisson: A waiter is woken by the commands that a Java service sends to count
// down.
func TestLatchWokenByRedisson(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}, slowRetries), context.Background()
		for _, publish := range []func(context.Context, string, any) *redis.IntCmd{rdb.Publish, rdb.SPublish} {
			key := newKey()
			rdb.Set(ctx, key, "1", 0)
			reply := connect(t, s).startInQueue(s, 1, latchOf(key), "LATCH.AWAIT", key, "BLOCK", "0")
			eventually(t, 5*time.Second, "it listens", func() bool {
				return listeners(t, rdb, script.LatchChannel(key)) == 1
			})
			rdb.Del(ctx, key)
			publish(ctx, script.LatchChannel(key), "0")
			want(t, woken(t, reply), ":1")
		}
	})
}

// TestLatchOfANameWithBraces: On a cluster, the channel of such a latch belongs to another slot
// than the latch. Waiters are still woken.
func TestLatchOfANameWithBraces(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries),
			"{"+newKey()+"}:latch"
		a := connect(t, s)
		want(t, a.do("LATCH.SET", key, "1"), ":1")
		reply := connect(t, other).startInQueue(other, 1, latchOf(key), "LATCH.AWAIT", key, "BLOCK", "0")
		eventually(t, 5*time.Second, "it listens", func() bool {
			return listeners(t, rdb, script.LatchChannel(key)) == 1
		})
		want(t, a.do("LATCH.DOWN", key), ":0")
		want(t, woken(t, reply), ":1")
	})
}

func TestR10PermitQueuesHaveKeysOfOneSlot(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		a := connect(t, s)
		for i, key := range []string{"a}b", "a{b", "{}a", ""} {
			for _, args := range [][]string{
				{"SEM.TAKE", key}, {"SEM.GIVE", key, "0"}, {"LATCH.SET", key, strconv.Itoa(i)}, {"LATCH.DOWN", key},
				{"LATCH.GET", key}, {"LATCH.AWAIT", key},
			} {
				if got := a.do(args...); (got == "-"+refusal.Slots) != s.Redis.IsCluster {
					t.Errorf("%q: got %q", args, got)
				}
			}
			rdb.Del(t.Context(), key)
		}
	})
}

func TestR8CountersLieInTheirDatabase(t *testing.T) {
	t.Parallel()
	in, key := databases(t), newKey()
	s := leash(t, in(0), Config{Database: in})
	a, b := connectTo(t, s, 0), connectTo(t, s, 3)
	want(t, a.do("SEM.GIVE", key), ":1")
	want(t, b.do("SEM.TAKE", key), ":0")
	want(t, b.do("LATCH.SET", "latch"+key, "1"), ":1")
	want(t, a.do("LATCH.GET", "latch"+key), ":0")
	id := wait.QueueID{Lock: script.Lock{DB: 3, Key: key}, Channel: script.PermitChannel(key)}
	reply := b.startInQueue(s, 1, id, "SEM.TAKE", key, "BLOCK", "0")
	want(t, a.do("SEM.GIVE", key), ":2") // published on the same channel
	want(t, connectTo(t, s, 3).do("SEM.GIVE", key), ":1")
	want(t, receive(t, reply, 5*time.Second), ":1")
}

// TestLatchOfManyCounters: On two Leashes, as many clients count down as wait, all at once. Exactly
// one of them opens the latch. (Redisson: RedissonCountDownLatchConcurrentTest.)
func TestLatchOfManyCounters(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes, key := []*Service{leash(t, rdb, Config{}), leash(t, rdb, Config{})}, newKey()
		const n = 24
		want(t, connect(t, leashes[0]).do("LATCH.SET", key, strconv.Itoa(n)), ":1")
		replies, opened := make(chan string, n), make(chan string, n)
		for i := range n {
			c, counter := connect(t, leashes[i%2]), connect(t, leashes[i/2%2])
			go func() { opened <- c.do("LATCH.AWAIT", key, "BLOCK", "50000") }()
			go func() { replies <- counter.do("LATCH.DOWN", key) }()
		}
		counts := make(map[string]int)
		for range n {
			counts[receive(t, replies, 5*time.Second)]++
		}
		for i := range n {
			if counts[":"+strconv.Itoa(i)] != 1 {
				t.Fatalf("got counts %v, want each from 0 to %d once", counts, n-1)
			}
		}
		for range n {
			want(t, receive(t, opened, 5*time.Second), ":1")
		}
		if exists(t, rdb, key) {
			t.Error("the latch is still there")
		}
	})
}
