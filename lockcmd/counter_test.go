package lockcmd_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
)

func latchOf(key string) wait.QueueID { return lockcmd.LatchQueue(locktest.LockOf(key)) }

func TestCounterIsRedissonsSemaphore(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		a, heard := locktest.Connect(t, s), locktest.ListenTo(t, rdb, "redisson_sc:{"+key+"}")
		locktest.Want(t, a.Do("SEM.TAKE", key), ":0") // the counter does not exist yet
		locktest.Want(t, a.Do("SEM.TAKE", key, "0"), ":1")
		locktest.Want(t, a.Do("SEM.GIVE", key, "0"), ":0")
		if locktest.Exists(t, rdb, key) {
			t.Error("nothing was given, and the counter is there")
		}
		locktest.Want(t, a.Do("SEM.GIVE", key), ":1")
		locktest.WantMessage(t, heard, "1")
		locktest.Want(t, a.Do("sem.give", key, "4"), ":5")
		locktest.WantMessage(t, heard, "5")
		locktest.Want(t, a.Do("SEM.TAKE", key, "6"), ":0")
		locktest.Want(t, a.Do("SEM.TAKE", key, "3"), ":1")
		locktest.Want(t, rdb.Get(ctx, key).Val(), "2")
		// the value that addPermits(-n) leaves; a TTL that trySetPermits(n, ttl) sets
		rdb.Set(ctx, key, "-3", time.Minute)
		locktest.Want(t, a.Do("SEM.TAKE", key), ":0")
		locktest.Want(t, a.Do("SEM.GIVE", key, "2"), ":-1")
		locktest.Want(t, a.Do("SEM.GIVE", key, "2"), ":1")
		locktest.WantMessage(t, heard, "1")
		locktest.Want(t, a.Do("SEM.TAKE", key), ":1")
		if left := rdb.PTTL(ctx, key).Val(); left < 50*time.Second || left > time.Minute {
			t.Errorf("got TTL %v, want what it was", left)
		}
		locktest.WantNoMessage(t, heard)
		rdb.Set(ctx, key, "text", 0)
		locktest.Want(t, a.Do("SEM.TAKE", key), "-"+refusal.NotInteger)
		locktest.Want(t, a.Do("SEM.GIVE", key), "-"+refusal.NotInteger)
		rdb.Set(ctx, key, "1.5", 0)
		locktest.Want(t, a.Do("SEM.TAKE", key), "-"+refusal.NotInteger)
		rdb.Del(ctx, key)
		rdb.RPush(ctx, key, "x")
		for _, command := range []string{"SEM.TAKE", "SEM.GIVE", "LATCH.DOWN", "LATCH.GET", "LATCH.AWAIT"} {
			locktest.Want(t, a.Do(command, key), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		}
	})
}

func TestCounterWakesWaiters(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		reply := b.StartInQueue(other, 1, locktest.PermitsOf(key), "SEM.TAKE", key, "2", "BLOCK", "0")
		locktest.Eventually(t, 5*time.Second, "b listens", func() bool {
			return locktest.Listeners(t, rdb, script.PermitChannel(key)) == 1
		})
		if b.Waits.Load() != 1 || !b.Guarded.Load() || other.Stats().Waiters != 1 {
			t.Error("the host was not told of the wait")
		}
		locktest.Want(t, a.Do("SEM.GIVE", key), ":1") // not enough yet
		select {
		case r := <-reply:
			t.Fatalf("got %q with one permit there", r)
		case <-time.After(50 * time.Millisecond):
		}
		locktest.Want(t, a.Do("SEM.GIVE", key), ":2")
		locktest.Want(t, locktest.Woken(t, reply), ":1")
		if b.Guarded.Load() || other.Stats().Waiters != 0 {
			t.Error("the waiter left something behind")
		}
	})
}

func TestCounterBlockEndsInTime(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, began := locktest.Connect(t, s), time.Now()
		locktest.Want(t, a.Do("SEM.TAKE", key, "BLOCK", "200"), ":0")
		if took := time.Since(began); took < 200*time.Millisecond || took > locktest.Soon {
			t.Errorf("BLOCK 200 took %v", took)
		}
		if s.Waits.InQueue(locktest.PermitsOf(key)) != 0 {
			t.Error("it still waits")
		}
	})
}

// TestR17PermitsAreFoundWithoutAMessage: When a message is lost, a waiter finds the permit about a
// second later.
func TestR17PermitsAreFoundWithoutAMessage(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, permits, latch, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), locktest.NewKey(),
		context.Background()
	rdb.Set(ctx, latch, "1", 0)
	taken := locktest.Connect(t, s).StartInQueue(s, 1, locktest.PermitsOf(permits), "SEM.TAKE", permits, "BLOCK", "0")
	opened := locktest.Connect(t, s).StartInQueue(s, 1, latchOf(latch), "LATCH.AWAIT", latch, "BLOCK", "0")
	rdb.Set(ctx, permits, "1", 0)
	rdb.Del(ctx, latch)
	locktest.Want(t, locktest.Receive(t, taken, 3*time.Second), ":1")
	locktest.Want(t, locktest.Receive(t, opened, 3*time.Second), ":1")
}

func TestR18WaiterForTwoPermitsIsNotStarved(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		giver := locktest.Connect(t, s)
		two := locktest.Connect(t, s).StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.TAKE", key, "2", "BLOCK", "0")
		one := locktest.Connect(t, s).StartInQueue(s, 2, locktest.PermitsOf(key), "SEM.TAKE", key, "BLOCK", "0")
		locktest.Want(t, giver.Do("SEM.GIVE", key), ":1")
		select {
		case r := <-one:
			t.Fatalf("the second waiter got %q first", r)
		case <-time.After(1500 * time.Millisecond): // it has tried more than once
		}
		giver.Do("SEM.GIVE", key)
		locktest.Want(t, locktest.Receive(t, two, 5*time.Second), ":1")
		giver.Do("SEM.GIVE", key)
		locktest.Want(t, locktest.Receive(t, one, 5*time.Second), ":1")
	})
}

func TestR18OneGiveServesManyInOrder(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		const n = 20
		order := make(chan int, n)
		var wg sync.WaitGroup
		for i := range n {
			reply := locktest.Connect(t, s).StartInQueue(s, i+1, locktest.PermitsOf(key), "SEM.TAKE", key, "BLOCK", "0")
			wg.Go(func() {
				<-reply
				order <- i
			})
		}
		locktest.Eventually(t, 5*time.Second, "they listen", func() bool {
			return locktest.Listeners(t, rdb, script.PermitChannel(key)) == 1
		})
		began := time.Now()
		locktest.Connect(t, s).Do("SEM.GIVE", key, strconv.Itoa(n))
		wg.Wait()
		if took := time.Since(began); took > locktest.Soon {
			t.Errorf("one message served %d in %v", n, took)
		}
		locktest.Want(t, rdb.Get(t.Context(), key).Val(), "0")
	})
}

func TestR19DisconnectedClientTakesNothing(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		gone := a.StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.TAKE", key, "2", "BLOCK", "0")
		reply := b.StartInQueue(s, 2, locktest.PermitsOf(key), "SEM.TAKE", key, "BLOCK", "0")
		locktest.Connect(t, s).Do("SEM.GIVE", key)
		a.Gone()
		locktest.Want(t, locktest.Woken(t, gone), "-"+refusal.Gone)
		locktest.Want(t, locktest.Woken(t, reply), ":1") // the next waiter was served at once
		locktest.Connect(t, s).Do("SEM.GIVE", key)
		locktest.Want(t, a.Do("SEM.TAKE", key), "-"+refusal.Gone) // granted, but the client is gone
		locktest.Eventually(t, 5*time.Second, "the permit is released", func() bool {
			return rdb.Get(t.Context(), key).Val() == "1"
		})
	})
}

func TestR31DrainEndsThePermitQueues(t *testing.T) {
	t.Parallel()
	s, key := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{},
		locktest.SlowRetries), locktest.NewKey()
	taking := locktest.Connect(t, s).StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.TAKE", key, "BLOCK", "0")
	locktest.Connect(t, s).Do("LATCH.SET", "latch"+key, "1")
	waiting := locktest.Connect(t, s).StartInQueue(s, 1, latchOf("latch"+key), "LATCH.AWAIT", "latch"+key, "BLOCK", "0")
	s.Drain()
	locktest.Want(t, locktest.Woken(t, taking), "-"+refusal.Draining)
	locktest.Want(t, locktest.Woken(t, waiting), "-"+refusal.Draining)
	locktest.Want(t, locktest.Connect(t, s).Do("SEM.TAKE", key), "-"+refusal.Draining)
	locktest.Want(t, locktest.Connect(t, s).Do("SEM.GIVE", key), ":1")
}

// TestR7CountersAreNotCountedTwice: When the outcome is unknown, Leash does not repeat the command.
// A second run would count twice.
func TestR7CountersAreNotCountedTwice(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	a, rdb := locktest.Connect(t, s), locktest.RedisOf(straight)
	for _, after := range []bool{true, false} {
		key, latch := locktest.NewKey(), locktest.NewKey()
		arm, left := p.DropBefore, "5"
		if after {
			arm, left = p.DropAfter, "4"
		}
		rdb.Set(t.Context(), key, "5", 0)
		rdb.Set(t.Context(), latch, "5", 0)
		for _, row := range []struct {
			sc      *transport.Script
			command []string
			key     string
			left    string
		}{
			{script.ByName("take"), []string{"SEM.TAKE", key}, key, left},
			{script.ByName("give"), []string{"SEM.GIVE", key}, key, "5"},
			{script.ByName("count_down"), []string{"LATCH.DOWN", latch}, latch, left},
		} {
			// Redis knows the script
			locktest.Want(t, locktest.Connect(t, straight).Do(row.command[0], locktest.NewKey())[:1], ":")
			fault := arm(locktest.Running(row.sc, row.key))
			locktest.Want(t, a.Do(row.command...), "-"+refusal.Unknown)
			if fault.Count() != 1 {
				t.Fatal("no reply was lost")
			}
			locktest.Want(t, rdb.Get(t.Context(), row.key).Val(), row.left)
		}
	}
	if s.Stats().Timeouts != 6 {
		t.Errorf("got %d timeouts, want 6", s.Stats().Timeouts)
	}
}

func TestR13GiveAndDownWorkAtTheMemoryLimit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := locktest.DialServer(t, server.Addr)
	s, key, latch, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), locktest.NewKey(),
		context.Background()
	a := locktest.Connect(t, s)
	locktest.Want(t, a.Do("SEM.GIVE", key), ":1")
	locktest.Want(t, a.Do("LATCH.SET", latch, "2"), ":1")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	locktest.Want(t, a.Do("SEM.GIVE", key, "2"), ":3")
	locktest.Want(t, a.Do("LATCH.DOWN", latch), ":1")
	locktest.Want(t, a.Do("LATCH.DOWN", latch), ":0")
	locktest.Want(t, a.Do("SEM.TAKE", key), "-OOM command not allowed when used memory > 'maxmemory'.")
	locktest.Want(t, a.Do("LATCH.SET", latch, "2"), "-OOM command not allowed when used memory > 'maxmemory'.")
}

// TestCounterIsExact: Two Leashes and 16 connections share two permits. There are never more than
// two holders.
func TestCounterIsExact(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes, key := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{})}, locktest.NewKey()
		locktest.Want(t, locktest.Connect(t, leashes[0]).Do("SEM.GIVE", key, "2"), ":2")
		var wg sync.WaitGroup
		var inside, cycles atomic.Int64
		for i := range 16 {
			c := locktest.Connect(t, leashes[i%2])
			wg.Go(func() {
				for range 20 {
					if got := c.Do("SEM.TAKE", key, "BLOCK", "0"); got != ":1" {
						t.Errorf("got %q", got)
						return
					}
					if n := inside.Add(1); n > 2 {
						t.Errorf("%d have a permit of 2", n)
					}
					inside.Add(-1)
					cycles.Add(1)
					c.Do("SEM.GIVE", key)
				}
			})
		}
		wg.Wait()
		locktest.Want(t, rdb.Get(t.Context(), key).Val(), "2")
		if cycles.Load() != 320 {
			t.Errorf("got %d cycles, want 320", cycles.Load())
		}
	})
}

// TestInvalidCounterValues: Commands refuse a counter that Redis cannot read as an integer, or that
// Lua cannot count exactly.
func TestInvalidCounterValues(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a := locktest.Connect(t, s)
		for _, value := range []string{"1.5", "1e3", "0x10", " 1", "01", "-0", "+1", "inf", "nan",
			"9223372036854775808", "99999999999999999999"} {
			rdb.Set(t.Context(), key, value, 0)
			for _, command := range []string{"SEM.TAKE", "SEM.GIVE", "SEM.INFO", "SEM.ACQUIRE", "LATCH.DOWN",
				"LATCH.GET", "LATCH.AWAIT"} {
				if got := a.Do(command, key); got != "-"+refusal.NotInteger {
					t.Errorf("%s of %q: got %q", command, value, got)
				}
			}
			for _, command := range []string{"SEM.INIT", "SEM.RESIZE"} {
				if got := a.Do(command, key, "1"); got != "-"+refusal.NotInteger {
					t.Errorf("%s of %q: got %q", command, value, got)
				}
			}
			locktest.Want(t, rdb.Get(t.Context(), key).Val(), value)
		}
		rdb.Set(t.Context(), key, "9007199254740993", 0) // Lua would round this number
		for _, command := range []string{"SEM.TAKE", "SEM.GIVE", "SEM.INFO", "SEM.ACQUIRE", "LATCH.DOWN"} {
			locktest.Want(t, a.Do(command, key), "-"+refusal.NotInteger)
		}
		locktest.Want(t, a.Do("LATCH.GET", key), ":9007199254740993")
		rdb.Set(t.Context(), key, "9007199254740991", 0)
		locktest.Want(t, a.Do("LATCH.DOWN", key), ":9007199254740990")
		rdb.Set(t.Context(), key, "-3", 0)
		locktest.Want(t, a.Do("SEM.GIVE", key, "2"), ":-1")
	})
}

func TestCounterArguments(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	a := locktest.Connect(t, s)
	for _, row := range []struct {
		want string
		args []string
	}{
		{"ERR wrong number of arguments for 'sem.take' command", []string{"SEM.TAKE"}},
		{"ERR wrong number of arguments for 'sem.give' command", []string{"SEM.GIVE", key, "1", "2"}},
		{"ERR wrong number of arguments for 'latch.set' command", []string{"LATCH.SET", key}},
		{"ERR wrong number of arguments for 'latch.down' command", []string{"LATCH.DOWN", key, "1"}},
		{"ERR wrong number of arguments for 'latch.get' command", []string{"LATCH.GET"}},
		{"ERR wrong number of arguments for 'latch.await' command", []string{"LATCH.AWAIT"}},
		{"ERR wrong number of arguments for 'sem.init' command", []string{"SEM.INIT", key}},
		{"ERR wrong number of arguments for 'sem.resize' command", []string{"SEM.RESIZE", key, "1", "2"}},
		{"ERR wrong number of arguments for 'sem.info' command", []string{"SEM.INFO"}},
		{refusal.Negative, []string{"SEM.INIT", key, "-1"}},
		{refusal.NotInteger, []string{"SEM.RESIZE", key, "2147483648"}},
		{refusal.NotInteger, []string{"SEM.TAKE", key, "x"}},
		{refusal.NotInteger, []string{"SEM.TAKE", key, "2147483648"}},
		{refusal.Negative, []string{"SEM.TAKE", key, "-1"}},
		{refusal.Negative, []string{"SEM.GIVE", key, "-1"}},
		{refusal.NotInteger, []string{"SEM.GIVE", key, "1.0"}},
		{refusal.Syntax, []string{"SEM.TAKE", key, "1", "NOW"}},
		{refusal.Syntax, []string{"SEM.TAKE", key, "1", "BLOCK"}},
		{refusal.Syntax, []string{"SEM.TAKE", key, "BLOCK", "1", "BLOCK", "1"}},
		{refusal.BlockNegative, []string{"SEM.TAKE", key, "BLOCK", "-1"}},
		{refusal.BlockNumber, []string{"LATCH.AWAIT", key, "BLOCK", "x"}},
		{refusal.BlockRange, []string{"LATCH.AWAIT", key, "BLOCK", "9223372036854775807"}},
		{refusal.Syntax, []string{"LATCH.AWAIT", key, "LEASE", "1"}},
		{refusal.Negative, []string{"LATCH.SET", key, "-1"}},
		{refusal.NotInteger, []string{"LATCH.SET", key, "9007199254740992"}},
	} {
		if got := a.Do(row.args...); got != "-"+row.want {
			t.Errorf("%q: got %q, want %q", row.args, got, row.want)
		}
	}
	if locktest.Exists(t, rdb, key) {
		t.Error("a refused command had an effect")
	}
}

// TestPermitsWokenByRedisson: A waiter is woken by the commands that a Java service sends to give
// permits.
func TestPermitsWokenByRedisson(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), context.Background()
		for _, publish := range []func(context.Context, string, any) *redis.IntCmd{rdb.Publish, rdb.SPublish} {
			for _, command := range []string{"SEM.TAKE", "SEM.ACQUIRE"} {
				key := locktest.NewKey()
				reply := locktest.Connect(t, s).StartInQueue(s, 1, locktest.PermitsOf(key), command, key, "BLOCK", "0")
				locktest.Eventually(t, 5*time.Second, "it listens", func() bool {
					return locktest.Listeners(t, rdb, script.PermitChannel(key)) == 1
				})
				rdb.IncrBy(ctx, key, 1)
				publish(ctx, script.PermitChannel(key), "1")
				if got := locktest.Woken(t, reply); got != ":1" && !locktest.PermitReply.MatchString(got) {
					t.Fatalf("got reply %q", got)
				}
			}
		}
	})
}

// TestCounterOutlastsAPauseOfRedis: A command about a counter cannot be repeated, so it waits for
// its reply longer than for one attempt. Locks that cannot wait so long do not end its connection.
func TestCounterOutlastsAPauseOfRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb, key := locktest.DialServer(t, server.Addr), locktest.NewKey()
	s := locktest.Start(t, rdb, lockcmd.Config{})
	locktest.Want(t, locktest.Connect(t, s).Do("SEM.GIVE", key), ":1") // Redis knows the script
	locktest.Connect(t, s).Token(key + "lock")
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	lock, given := locktest.Connect(t, s).Start("LOCK.ACQUIRE", key+"other"), locktest.Connect(t, s).Start("SEM.GIVE", key)
	time.Sleep(transport.MaxAttempt * 3 / 2)
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	locktest.Want(t, locktest.Receive(t, given, locktest.Soon), ":2")
	locktest.TokenOf(t, locktest.Receive(t, lock, locktest.Soon))
}
