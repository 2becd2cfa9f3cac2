package lockcmd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// await starts an ACQUIRE that waits. It returns when at most n waiters are in the queue, this one
// included.
func (c *conn) await(s *Service, n int, key string, options ...string) <-chan string {
	c.t.Helper()
	reply := c.start(append([]string{"LOCK.ACQUIRE", key}, options...)...)
	eventually(c.t, 5*time.Second, "the waiter is in the queue", func() bool {
		return s.Waiting(lockOf(key)) == n
	})
	return reply
}

func TestWaiterGetsTheLockFromAnotherLeash(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries), newKey()
		a, b := connect(t, s), connect(t, other)
		old := a.token(key)
		reply := b.await(other, 1, key, "BLOCK", "0")
		eventually(t, 5*time.Second, "b listens", func() bool { return subscribers(t, rdb, key) == 1 })
		if b.waits.Load() != 1 || !b.guarded.Load() {
			t.Error("the host was not told of the wait")
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if token := tokenOf(t, woken(t, reply)); token <= old {
			t.Errorf("got token %d after %d", token, old)
		}
	})
}

// subscribers returns how many clients subscribe to key's channel, on all nodes.
func subscribers(t testing.TB, rdb redis.UniversalClient, key string) int64 {
	t.Helper()
	return listeners(t, rdb, script.LockChannel(key))
}

// listeners returns how many clients subscribe to a channel, on all nodes.
func listeners(t testing.TB, rdb redis.UniversalClient, channel string) int64 {
	t.Helper()
	return countListeners(t, rdb, channel, (*redis.Client).PubSubNumSub)
}

// countListeners asks all nodes with numSub how many clients subscribe to a channel.
func countListeners(t testing.TB, rdb redis.UniversalClient, channel string,
	numSub func(*redis.Client, context.Context, ...string) *redis.MapStringIntCmd,
) int64 {
	t.Helper()
	n, err := numListeners(rdb, channel, numSub)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func numListeners(rdb redis.UniversalClient, channel string,
	numSub func(*redis.Client, context.Context, ...string) *redis.MapStringIntCmd,
) (n int64, err error) {
	var sum atomic.Int64
	ask := func(ctx context.Context, c *redis.Client) error {
		counts, err := numSub(c, ctx, channel).Result()
		sum.Add(counts[channel])
		return err
	}
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(context.Background(), ask)
	case *redis.Client:
		err = ask(context.Background(), c)
	}
	return sum.Load(), err
}

func TestBlockEndsInTime(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		a, b := connect(t, s), connect(t, s)
		a.token(key)
		began := time.Now()
		want(t, b.do("LOCK.ACQUIRE", key, "BLOCK", "200"), "$-1")
		if took := time.Since(began); took < 200*time.Millisecond || took > soon {
			t.Errorf("BLOCK 200 took %v", took)
		}
		if b.guarded.Load() || s.Stats().Waiters != 0 {
			t.Error("the waiter left something behind")
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if exists(t, rdb, key) {
			t.Error("a waiter whose wait was over got the lock")
		}
	})
}

func TestR17RetryWhenTheHoldersLeaseExpires(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}, slowRetries), newKey(), context.Background()
		began := time.Now()
		rdb.HSet(ctx, key, "java:1", "1") // a JVM that died sends no message
		rdb.PExpire(ctx, key, 400*time.Millisecond)
		connect(t, s).token(key, "BLOCK", "0")
		if took := time.Since(began); took < 400*time.Millisecond || took > soon {
			t.Errorf("it took %v", took)
		}
	})
}

func TestR17RetryEverySecond(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
	rdb.HSet(ctx, key, "java:1", "1")
	reply := connect(t, s).await(s, 1, key, "BLOCK", "0")
	rdb.Del(ctx, key) // no message is sent
	tokenOf(t, receive(t, reply, 2*time.Second))
}

func TestR17RetryAfterResubscription(t *testing.T) {
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key, ctx := leash(t, rdb, Config{}, slowRetries), newKey(), context.Background()
	a, b := connect(t, s), connect(t, leash(t, rdb, Config{}))
	b.token(key)
	reply := a.await(s, 1, key, "BLOCK", "0")
	eventually(t, 5*time.Second, "a listens", func() bool { return subscribers(t, rdb, key) == 1 })
	rdb.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub")
	eventually(t, 5*time.Second, "a listens again", func() bool { return subscribers(t, rdb, key) == 1 })
	want(t, b.do("LOCK.RELEASE", key), ":1")
	tokenOf(t, woken(t, reply))
}

func TestR18FirstComeFirstServed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		holder := connect(t, s)
		holder.token(key)
		const n = 40 // more than the hand-overs in a row
		conns, replies := make([]*conn, n), make([]<-chan string, n)
		for i := range n {
			conns[i] = connect(t, s)
			replies[i] = conns[i].await(s, i+1, key, "BLOCK", "0")
		}
		if got := subscribers(t, rdb, key); got != 1 {
			t.Errorf("got %d subscriptions for %d waiters, want 1", got, n)
		}
		last := int64(0)
		for i := range n {
			want(t, holder.do("LOCK.RELEASE", key), ":1")
			token := tokenOf(t, receive(t, replies[i], 5*time.Second))
			if token <= last {
				t.Fatalf("waiter %d got token %d after %d", i, token, last)
			}
			last, holder = token, conns[i]
		}
		want(t, holder.do("LOCK.RELEASE", key), ":1")
		if exists(t, rdb, key) || s.Waiting(lockOf(key)) != 0 {
			t.Error("something is left behind")
		}
	})
}

func TestR18WaiterThatLeavesPassesTheWakeUpOn(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key := leash(t, rdb, Config{}, slowRetries), newKey()
	a, b, c := connect(t, s), connect(t, s), connect(t, s)
	a.token(key)
	first := b.await(s, 1, key, "BLOCK", "0")
	second := c.await(s, 2, key, "BLOCK", "0")
	b.gone()
	wantPrefix(t, woken(t, first), "-LOCKTIMEOUT")
	want(t, a.do("LOCK.RELEASE", key), ":1")
	tokenOf(t, woken(t, second))
}

func TestR19DisconnectedWaiterIsNeverGranted(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		for i := range 50 { // the disconnect and the hand-over meet in every order
			a, b := connect(t, s), connect(t, s)
			a.token(key)
			reply := b.await(s, 1, key, "BLOCK", "0")
			released := a.start("LOCK.RELEASE", key)
			if i%3 == 0 {
				<-time.After(time.Duration(i) * 20 * time.Microsecond)
			}
			b.gone()
			b.carrier.End(Release)
			want(t, receive(t, released, 5*time.Second), ":1")
			receive(t, reply, 5*time.Second)
			eventually(t, 2*time.Second, "nothing is left", func() bool { return !exists(t, rdb, key) })
			eventually(t, 2*time.Second, "no holds and waiters are counted", func() bool {
				return s.Stats().Holds == 0 && s.Stats().Waiters == 0 && !b.guarded.Load()
			})
			if s.Holds.Find(lockOf(key), func(*hold.Hold) bool { return true }) != nil {
				t.Fatal("a hold is left in the index")
			}
		}
	})
}

func TestR21HandOverIsBounded(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}, slowRetries), newKey()
		subscribeFirst(t, s, script.LockChannel(key), key)
		holder := connect(t, s)
		holder.token(key)
		const n = 2 * wait.MaxHandovers
		conns, replies := make([]*conn, n), make([]<-chan string, n)
		for i := range n {
			conns[i] = connect(t, s)
			replies[i] = conns[i].await(s, i+1, key, "BLOCK", "0")
		}
		sub := rdb.Subscribe(context.Background(), script.LockChannel(key))
		defer sub.Close()
		published := sub.Channel()
		eventually(t, 5*time.Second, "we listen too", func() bool { return subscribers(t, rdb, key) >= 1 })
		if _, err := rdb.Ping(context.Background()).Result(); err != nil {
			t.Fatal(err)
		}
		for i := range wait.MaxHandovers {
			want(t, holder.do("LOCK.RELEASE", key), ":1")
			tokenOf(t, receive(t, replies[i], 5*time.Second))
			holder = conns[i]
		}
		if got := s.Stats().Handovers; got != wait.MaxHandovers {
			t.Errorf("got %d hand-overs, want %d", got, wait.MaxHandovers)
		}
		if len(published) != 0 {
			t.Error("a hand-over was published")
		}
		want(t, holder.do("LOCK.RELEASE", key), ":1")
		want(t, receive(t, published, 5*time.Second).Payload, "0")
	})
}

// TestR21HandOverIsBoundedForTwo: The holder releases and then waits again, so the queue is empty
// between any two hand-overs.
func TestR21HandOverIsBoundedForTwo(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries), newKey()
		subscribeFirst(t, s, script.LockChannel(key), key)
		a, b := connect(t, s), connect(t, s)
		subscribeFirst(t, other, script.LockChannel(key), key)
		a.token(key)
		elsewhere := connect(t, other).await(other, 1, key, "BLOCK", "0")
		for range wait.MaxHandovers + 1 {
			reply := b.await(s, 1, key, "BLOCK", "0")
			want(t, a.do("LOCK.RELEASE", key), ":1")
			select {
			case r := <-elsewhere:
				tokenOf(t, r)
				return
			case r := <-reply:
				tokenOf(t, r)
			case <-time.After(soon):
				t.Fatal("nobody got the lock")
			}
			a, b = b, a
		}
		t.Errorf("who waits on another Leash has not got it while it was handed over %d times", s.Stats().Handovers)
	})
}

// TestR21HandOverIsBoundedWhenAlone: Nobody else listens, so after the bound the message of the
// release comes back to this Leash.
func TestR21HandOverIsBoundedWhenAlone(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range [][]string{nil, {"WRITE"}} {
			s, key := leash(t, rdb, Config{}, slowRetries), newKey()
			a, b := connect(t, s), connect(t, s)
			a.token(append([]string{key}, mode...)...)
			for range 3 * wait.MaxHandovers {
				reply := b.await(s, 1, key, append([]string{"BLOCK", "0"}, mode...)...)
				want(t, a.do("LOCK.RELEASE", key), ":1")
				tokenOf(t, receive(t, reply, soon))
				a, b = b, a
			}
			if got := s.Stats().Handovers; got >= 3*wait.MaxHandovers || got < 2*wait.MaxHandovers {
				t.Errorf("%s: got %d hand-overs", mode, got)
			}
		}
	})
}

func TestR31DrainGrantsNothingMore(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key := leash(t, rdb, Config{}, slowRetries), newKey()
	a, b, c := connect(t, s), connect(t, s), connect(t, s)
	a.token(key, "TTL", "20000")
	first, second := b.await(s, 1, key, "BLOCK", "0"), c.await(s, 2, key, "BLOCK", "0")
	s.Drain()
	want(t, woken(t, first), "-"+refusal.Draining)
	want(t, woken(t, second), "-"+refusal.Draining)
	want(t, b.do("LOCK.ACQUIRE", newKey()), "-"+refusal.Draining)
	rdb.PExpire(context.Background(), key, 10*time.Second)
	s.RenewAll(context.Background()) // R31
	if left := rdb.PTTL(context.Background(), key).Val(); left < 15*time.Second {
		t.Errorf("got TTL %v after the last renewal, want all of it", left)
	}
	want(t, a.do("LOCK.RELEASE", key), ":1")
}

func TestInfoShowsHolders(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		a := connect(t, s)
		want(t, a.do("LOCK.INFO", key), "$-1")
		token := a.token(key, "OWNER", "me")
		wantPrefix(t, a.do("LOCK.INFO", key), fmt.Sprintf(
			"*22\r\n$5\r\nstate\r\n$4\r\nheld\r\n$4\r\nmode\r\n$5\r\nplain\r\n$5\r\nowner\r\n$2\r\nme\r\n$5\r\ntoken\r\n:%d\r\n$5\r\nholds\r\n:1\r\n", token))
		key = newKey()
		rdb.HSet(ctx, key, "java:1", "2")
		rdb.PExpire(ctx, key, time.Minute)
		wantPrefix(t, a.do("LOCK.INFO", key),
			"*22\r\n$5\r\nstate\r\n$4\r\nheld\r\n$4\r\nmode\r\n$5\r\nplain\r\n$5\r\nowner\r\n"+
				"$6\r\njava:1\r\n$5\r\ntoken\r\n$-1\r\n$5\r\nholds\r\n:2\r\n$8\r\nsince-ms\r\n$-1\r\n")
	})
}

func TestR21BlockEndsThoughAHandOverIsUnanswered(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: time.Minute}, slowRetries)
	a, b, key := connect(t, s), connect(t, s), newKey()
	a.token(key)
	var results atomic.Int64
	p.HoldBefore(func(request []byte) bool {
		if running(script.AcquireScript, key)(request) {
			results.Add(1)
		}
		return false
	})
	reply := b.await(s, 1, key, "BLOCK", "6000")
	eventually(t, time.Second, "b has tried at its start and after its subscription", func() bool {
		id := wait.QueueID{Lock: lockOf(key), Channel: script.LockChannel(key)}
		return results.Load() == 2 && s.Waits.InQueue(id) == 1 && s.Waits.Rests(id)
	})
	late := p.HoldBefore(running(script.HandoverScript, key), faultproxy.Always())
	began := time.Now()
	released := a.start("LOCK.RELEASE", key)
	want(t, receive(t, reply, 5*time.Second), "$-1")
	if took := time.Since(began); took > soon {
		t.Errorf("BLOCK 6000 was answered after %v", took)
	}
	late.Disarm()
	late.Release()
	want(t, receive(t, released, 5*time.Second), ":1")
	eventually(t, 2*time.Second, "the grant is released", func() bool { return !exists(t, straight.Redis.Redis, key) })
	if b.carrier.Holds() != 0 {
		t.Error("the waiter has a hold")
	}
}

// TestWaitersAreLimited: A waiter above the limit is refused and leaves nothing behind. When
// another waiter leaves, a new one may wait.
func TestWaitersAreLimited(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{MaxWaiters: 2}), newKey()
		a, b, c, d := connect(t, s), connect(t, s), connect(t, s), connect(t, s)
		a.token(key)
		first := b.await(s, 1, key, "BLOCK", "0")
		second := c.await(s, 2, key, "BLOCK", "0")
		wantPrefix(t, d.do("LOCK.ACQUIRE", key, "BLOCK", "0"), "-LOCKLIMIT ")
		s.Change(Config{MaxWaiters: 3})
		want(t, d.do("LOCK.ACQUIRE", key, "BLOCK", "10"), "$-1")
		s.Change(Config{MaxWaiters: 2})
		want(t, d.do("LOCK.ACQUIRE", key), "$-1")
		d.token(newKey(), "BLOCK", "0") // a request that need not wait is not refused
		if got := s.Stats(); got.Waiters != 2 || got.Limited != 1 {
			t.Errorf("got %d waiters and %d refused, want 2 and 1", got.Waiters, got.Limited)
		}
		c.gone()
		wantPrefix(t, receive(t, second, 5*time.Second), "-LOCKTIMEOUT ")
		third := d.await(s, 2, key, "BLOCK", "0")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, first, 5*time.Second))
		want(t, b.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, third, 5*time.Second))
		if waits := d.waits.Load(); waits != 2 {
			t.Errorf("d's host was told of %d waits, want 2", waits)
		}
	})
}

// TestR17BlockCountsOnce: BLOCK includes the time of the first attempt, which Redis refused for all
// that time.
func TestR17BlockCountsOnce(t *testing.T) {
	t.Parallel()
	takesLong(t)
	s, _, p := faulty(t, Config{})
	if err := p.Refuse(true); err != nil {
		t.Fatal(err)
	}
	p.Cut(faultproxy.FIN)
	for _, command := range [][]string{
		{"LOCK.ACQUIRE", newKey(), "BLOCK", "10000"}, {"LOCK.MACQUIRE", "1", newKey(), "BLOCK", "10000"},
		{"SEM.ACQUIRE", newKey(), "BLOCK", "10000"},
	} {
		t.Run(command[0], func(t *testing.T) {
			t.Parallel()
			a, began := connect(t, s), time.Now()
			wantPrefix(t, a.do(command...), "-LOCKTIMEOUT")
			if took := time.Since(began); took < 9900*time.Millisecond || took > 18*time.Second {
				t.Errorf("%s: answered after %v, want 10 to 12 s", command[0], took)
			}
		})
	}
}
