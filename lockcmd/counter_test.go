package lockcmd

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
)

// startInQueue starts a command that waits, and returns when it is the n-th in the queue.
func (c *conn) startInQueue(s *Service, n int, id wait.QueueID, args ...string) <-chan string {
	c.t.Helper()
	reply := c.start(args...)
	eventually(c.t, 5*time.Second, "it is in the queue", func() bool { return s.Waits.InQueue(id) == n })
	return reply
}

func permitsOf(key string) wait.QueueID { return wait.QueueOf(lockOf(key), script.Permit) }
func latchOf(key string) wait.QueueID   { return latchQueue(lockOf(key)) }

// listenTo subscribes to a channel in both ways that Redisson uses.
func listenTo(t testing.TB, rdb redis.UniversalClient, channel string) []*redis.PubSub {
	t.Helper()
	both := []*redis.PubSub{rdb.Subscribe(t.Context(), channel), rdb.SSubscribe(t.Context(), channel)}
	for _, ps := range both {
		t.Cleanup(func() { ps.Close() })
		if _, err := ps.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return both
}

// wantMessage checks that payload is the next message on a channel.
func wantMessage(t testing.TB, both []*redis.PubSub, payload string) {
	t.Helper()
	for _, ps := range both {
		if got := receive(t, ps.Channel(), 5*time.Second).Payload; got != payload {
			t.Fatalf("got message %q, want %q", got, payload)
		}
	}
}

// wantNoMessage checks that no more messages have come.
func wantNoMessage(t testing.TB, both []*redis.PubSub) {
	t.Helper()
	<-time.After(20 * time.Millisecond)
	for _, ps := range both {
		if n := len(ps.Channel()); n != 0 {
			t.Errorf("%d unwanted messages have come, first %q", n, (<-ps.Channel()).Payload)
		}
	}
}

func TestCounterIsRedissonsSemaphore(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		a, heard := connect(t, s), listenTo(t, rdb, "redisson_sc:{"+key+"}")
		want(t, a.do("SEM.TAKE", key), ":0") // the counter does not exist yet
		want(t, a.do("SEM.TAKE", key, "0"), ":1")
		want(t, a.do("SEM.GIVE", key, "0"), ":0")
		if exists(t, rdb, key) {
			t.Error("nothing was given, and the counter is there")
		}
		want(t, a.do("SEM.GIVE", key), ":1")
		wantMessage(t, heard, "1")
		want(t, a.do("sem.give", key, "4"), ":5")
		wantMessage(t, heard, "5")
		want(t, a.do("SEM.TAKE", key, "6"), ":0")
		want(t, a.do("SEM.TAKE", key, "3"), ":1")
		want(t, rdb.Get(ctx, key).Val(), "2")
		// the value that addPermits(-n) leaves; a TTL that trySetPermits(n, ttl) sets
		rdb.Set(ctx, key, "-3", time.Minute)
		want(t, a.do("SEM.TAKE", key), ":0")
		want(t, a.do("SEM.GIVE", key, "2"), ":-1")
		want(t, a.do("SEM.GIVE", key, "2"), ":1")
		wantMessage(t, heard, "1")
		want(t, a.do("SEM.TAKE", key), ":1")
		if left := rdb.PTTL(ctx, key).Val(); left < 50*time.Second || left > time.Minute {
			t.Errorf("got TTL %v, want what it was", left)
		}
		wantNoMessage(t, heard)
		rdb.Set(ctx, key, "text", 0)
		want(t, a.do("SEM.TAKE", key), "-"+refusal.NotInteger)
		want(t, a.do("SEM.GIVE", key), "-"+refusal.NotInteger)
		rdb.Set(ctx, key, "1.5", 0)
		want(t, a.do("SEM.TAKE", key), "-"+refusal.NotInteger)
		rdb.Del(ctx, key)
		rdb.RPush(ctx, key, "x")
		for _, command := range []string{"SEM.TAKE", "SEM.GIVE", "LATCH.DOWN", "LATCH.GET", "LATCH.AWAIT"} {
			want(t, a.do(command, key), "-WRONGTYPE Operation against a key holding the wrong kind of value")
		}
	})
}

func TestCounterWakesWaiters(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries), newKey()
		a, b := connect(t, s), connect(t, other)
		reply := b.startInQueue(other, 1, permitsOf(key), "SEM.TAKE", key, "2", "BLOCK", "0")
		eventually(t, 5*time.Second, "b listens", func() bool {
			return listeners(t, rdb, script.PermitChannel(key)) == 1
		})
		if b.waits.Load() != 1 || !b.guarded.Load() || other.Stats().Waiters != 1 {
			t.Error("the host was not told of the wait")
		}
		want(t, a.do("SEM.GIVE", key), ":1") // not enough yet
		select {
		case r := <-reply:
			t.Fatalf("got %q with one permit there", r)
		case <-time.After(50 * time.Millisecond):
		}
		want(t, a.do("SEM.GIVE", key), ":2")
		want(t, woken(t, reply), ":1")
		if b.guarded.Load() || other.Stats().Waiters != 0 {
			t.Error("the waiter left something behind")
		}
	})
}

func TestCounterBlockEndsInTime(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		a, began := connect(t, s), time.Now()
		want(t, a.do("SEM.TAKE", key, "BLOCK", "200"), ":0")
		if took := time.Since(began); took < 200*time.Millisecond || took > soon {
			t.Errorf("BLOCK 200 took %v", took)
		}
		if s.Waits.InQueue(permitsOf(key)) != 0 {
			t.Error("it still waits")
		}
	})
}

// TestR17PermitsAreFoundWithoutAMessage: When a message is lost, a waiter finds the permit about a
// second later.
func TestR17PermitsAreFoundWithoutAMessage(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, permits, latch, ctx := leash(t, rdb, Config{}), newKey(), newKey(), context.Background()
	rdb.Set(ctx, latch, "1", 0)
	taken := connect(t, s).startInQueue(s, 1, permitsOf(permits), "SEM.TAKE", permits, "BLOCK", "0")
	opened := connect(t, s).startInQueue(s, 1, latchOf(latch), "LATCH.AWAIT", latch, "BLOCK", "0")
	rdb.Set(ctx, permits, "1", 0)
	rdb.Del(ctx, latch)
	want(t, receive(t, taken, 3*time.Second), ":1")
	want(t, receive(t, opened, 3*time.Second), ":1")
}

func TestR18WaiterForTwoPermitsIsNotStarved(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		giver := connect(t, s)
		two := connect(t, s).startInQueue(s, 1, permitsOf(key), "SEM.TAKE", key, "2", "BLOCK", "0")
		one := connect(t, s).startInQueue(s, 2, permitsOf(key), "SEM.TAKE", key, "BLOCK", "0")
		want(t, giver.do("SEM.GIVE", key), ":1")
		select {
		case r := <-one:
			t.Fatalf("the second waiter got %q first", r)
		case <-time.After(1500 * time.Millisecond): // it has tried more than once
		}
		giver.do("SEM.GIVE", key)
		want(t, receive(t, two, 5*time.Second), ":1")
		giver.do("SEM.GIVE", key)
		want(t, receive(t, one, 5*time.Second), ":1")
	})
}

func TestR18OneGiveServesManyInOrder(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		const n = 20
		order := make(chan int, n)
		var wg sync.WaitGroup
		for i := range n {
			reply := connect(t, s).startInQueue(s, i+1, permitsOf(key), "SEM.TAKE", key, "BLOCK", "0")
			wg.Go(func() {
				<-reply
				order <- i
			})
		}
		eventually(t, 5*time.Second, "they listen", func() bool {
			return listeners(t, rdb, script.PermitChannel(key)) == 1
		})
		began := time.Now()
		connect(t, s).do("SEM.GIVE", key, strconv.Itoa(n))
		wg.Wait()
		if took := time.Since(began); took > soon {
			t.Errorf("one message served %d in %v", n, took)
		}
		want(t, rdb.Get(t.Context(), key).Val(), "0")
	})
}

func TestR19DisconnectedClientTakesNothing(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		a, b := connect(t, s), connect(t, s)
		gone := a.startInQueue(s, 1, permitsOf(key), "SEM.TAKE", key, "2", "BLOCK", "0")
		reply := b.startInQueue(s, 2, permitsOf(key), "SEM.TAKE", key, "BLOCK", "0")
		connect(t, s).do("SEM.GIVE", key)
		a.gone()
		want(t, woken(t, gone), "-"+refusal.Gone)
		want(t, woken(t, reply), ":1") // the next waiter was served at once
		connect(t, s).do("SEM.GIVE", key)
		want(t, a.do("SEM.TAKE", key), "-"+refusal.Gone) // granted, but the client is gone
		eventually(t, 5*time.Second, "the permit is released", func() bool {
			return rdb.Get(t.Context(), key).Val() == "1"
		})
	})
}

func TestR31DrainEndsThePermitQueues(t *testing.T) {
	t.Parallel()
	s, key := leash(t, dialServer(t, sharedServer(t).Addr), Config{}, slowRetries), newKey()
	taking := connect(t, s).startInQueue(s, 1, permitsOf(key), "SEM.TAKE", key, "BLOCK", "0")
	connect(t, s).do("LATCH.SET", "latch"+key, "1")
	waiting := connect(t, s).startInQueue(s, 1, latchOf("latch"+key), "LATCH.AWAIT", "latch"+key, "BLOCK", "0")
	s.Drain()
	want(t, woken(t, taking), "-"+refusal.Draining)
	want(t, woken(t, waiting), "-"+refusal.Draining)
	want(t, connect(t, s).do("SEM.TAKE", key), "-"+refusal.Draining)
	want(t, connect(t, s).do("SEM.GIVE", key), ":1")
}

// TestR7CountersAreNotCountedTwice: When the outcome is unknown, Leash does not repeat the command.
// A second run would count twice.
func TestR7CountersAreNotCountedTwice(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{})
	a, rdb := connect(t, s), straight.Redis.Redis
	for _, after := range []bool{true, false} {
		key, latch := newKey(), newKey()
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
			want(t, connect(t, straight).do(row.command[0], newKey())[:1], ":")
			fault := arm(running(row.sc, row.key))
			want(t, a.do(row.command...), "-"+refusal.Unknown)
			if fault.Count() != 1 {
				t.Fatal("no reply was lost")
			}
			want(t, rdb.Get(t.Context(), row.key).Val(), row.left)
		}
	}
	if s.Stats().Timeouts != 6 {
		t.Errorf("got %d timeouts, want 6", s.Stats().Timeouts)
	}
}

func TestR13GiveAndDownWorkAtTheMemoryLimit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := dialServer(t, server.Addr)
	s, key, latch, ctx := leash(t, rdb, Config{}), newKey(), newKey(), context.Background()
	a := connect(t, s)
	want(t, a.do("SEM.GIVE", key), ":1")
	want(t, a.do("LATCH.SET", latch, "2"), ":1")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	want(t, a.do("SEM.GIVE", key, "2"), ":3")
	want(t, a.do("LATCH.DOWN", latch), ":1")
	want(t, a.do("LATCH.DOWN", latch), ":0")
	want(t, a.do("SEM.TAKE", key), "-OOM command not allowed when used memory > 'maxmemory'.")
	want(t, a.do("LATCH.SET", latch, "2"), "-OOM command not allowed when used memory > 'maxmemory'.")
}

// TestCounterIsExact: Two Leashes and 16 connections share two permits. There are never more than
// two holders.
func TestCounterIsExact(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		leashes, key := []*Service{leash(t, rdb, Config{}), leash(t, rdb, Config{})}, newKey()
		want(t, connect(t, leashes[0]).do("SEM.GIVE", key, "2"), ":2")
		var wg sync.WaitGroup
		var inside, cycles atomic.Int64
		for i := range 16 {
			c := connect(t, leashes[i%2])
			wg.Go(func() {
				for range 20 {
					if got := c.do("SEM.TAKE", key, "BLOCK", "0"); got != ":1" {
						t.Errorf("got %q", got)
						return
					}
					if n := inside.Add(1); n > 2 {
						t.Errorf("%d have a permit of 2", n)
					}
					inside.Add(-1)
					cycles.Add(1)
					c.do("SEM.GIVE", key)
				}
			})
		}
		wg.Wait()
		want(t, rdb.Get(t.Context(), key).Val(), "2")
		if cycles.Load() != 320 {
			t.Errorf("got %d cycles, want 320", cycles.Load())
		}
	})
}

// TestInvalidCounterValues: Commands refuse a counter that Redis cannot read as an integer, or that
// Lua cannot count exactly.
func TestInvalidCounterValues(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		for _, value := range []string{"1.5", "1e3", "0x10", " 1", "01", "-0", "+1", "inf", "nan",
			"9223372036854775808", "99999999999999999999"} {
			rdb.Set(t.Context(), key, value, 0)
			for _, command := range []string{"SEM.TAKE", "SEM.GIVE", "SEM.INFO", "SEM.ACQUIRE", "LATCH.DOWN",
				"LATCH.GET", "LATCH.AWAIT"} {
				if got := a.do(command, key); got != "-"+refusal.NotInteger {
					t.Errorf("%s of %q: got %q", command, value, got)
				}
			}
			for _, command := range []string{"SEM.INIT", "SEM.RESIZE"} {
				if got := a.do(command, key, "1"); got != "-"+refusal.NotInteger {
					t.Errorf("%s of %q: got %q", command, value, got)
				}
			}
			want(t, rdb.Get(t.Context(), key).Val(), value)
		}
		rdb.Set(t.Context(), key, "9007199254740993", 0) // Lua would round this number
		for _, command := range []string{"SEM.TAKE", "SEM.GIVE", "SEM.INFO", "SEM.ACQUIRE", "LATCH.DOWN"} {
			want(t, a.do(command, key), "-"+refusal.NotInteger)
		}
		want(t, a.do("LATCH.GET", key), ":9007199254740993")
		rdb.Set(t.Context(), key, "9007199254740991", 0)
		want(t, a.do("LATCH.DOWN", key), ":9007199254740990")
		rdb.Set(t.Context(), key, "-3", 0)
		want(t, a.do("SEM.GIVE", key, "2"), ":-1")
	})
}

func TestCounterArguments(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key := leash(t, rdb, Config{}), newKey()
	a := connect(t, s)
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
		if got := a.do(row.args...); got != "-"+row.want {
			t.Errorf("%q: got %q, want %q", row.args, got, row.want)
		}
	}
	if exists(t, rdb, key) {
		t.Error("a refused command had an effect")
	}
}

// TestPermitsWokenByRedisson: A waiter is woken by the commands that a Java service sends to give
// permits.
func TestPermitsWokenByRedisson(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}, slowRetries), context.Background()
		for _, publish := range []func(context.Context, string, any) *redis.IntCmd{rdb.Publish, rdb.SPublish} {
			for _, command := range []string{"SEM.TAKE", "SEM.ACQUIRE"} {
				key := newKey()
				reply := connect(t, s).startInQueue(s, 1, permitsOf(key), command, key, "BLOCK", "0")
				eventually(t, 5*time.Second, "it listens", func() bool {
					return listeners(t, rdb, script.PermitChannel(key)) == 1
				})
				rdb.IncrBy(ctx, key, 1)
				publish(ctx, script.PermitChannel(key), "1")
				if got := woken(t, reply); got != ":1" && !permitReply.MatchString(got) {
					t.Fatalf("got reply %q", got)
				}
			}
		}
	})
}
