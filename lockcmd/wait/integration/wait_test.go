package wait_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

func TestWaiterGetsTheLockFromAnotherLeash(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		old := a.Token(key)
		reply := b.Await(other, 1, key, "BLOCK", "0")
		locktest.Eventually(t, 5*time.Second, "b listens",
			func() bool { return locktest.Subscribers(t, rdb, key) == 1 })
		if b.Waits.Load() != 1 || !b.Guarded.Load() {
			t.Error("the host was not told of the wait")
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if token := locktest.TokenOf(t, locktest.Woken(t, reply)); token <= old {
			t.Errorf("got token %d after %d", token, old)
		}
	})
}

func TestBlockEndsInTime(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key)
		began := time.Now()
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "BLOCK", "200"), "$-1")
		if took := time.Since(began); took < 200*time.Millisecond || took > locktest.Soon {
			t.Errorf("BLOCK 200 took %v", took)
		}
		if b.Guarded.Load() || s.Stats().Waiters != 0 {
			t.Error("the waiter left something behind")
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if locktest.Exists(t, rdb, key) {
			t.Error("a waiter whose wait was over got the lock")
		}
	})
}

func TestR17RetryWhenTheHoldersLeaseExpires(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey(),
			context.Background()
		began := time.Now()
		rdb.HSet(ctx, key, "java:1", "1") // a JVM that died sends no message
		rdb.PExpire(ctx, key, 400*time.Millisecond)
		locktest.Connect(t, s).Token(key, "BLOCK", "0")
		if took := time.Since(began); took < 400*time.Millisecond || took > locktest.Soon {
			t.Errorf("it took %v", took)
		}
	})
}

func TestR17RetryEverySecond(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
	rdb.HSet(ctx, key, "java:1", "1")
	reply := locktest.Connect(t, s).Await(s, 1, key, "BLOCK", "0")
	rdb.Del(ctx, key) // no message is sent
	locktest.TokenOf(t, locktest.Receive(t, reply, 2*time.Second))
}

func TestR17RetryAfterResubscription(t *testing.T) {
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey(),
		context.Background()
	a, b := locktest.Connect(t, s), locktest.Connect(t, locktest.Start(t, rdb, lockcmd.Config{}))
	b.Token(key)
	reply := a.Await(s, 1, key, "BLOCK", "0")
	locktest.Eventually(t, 5*time.Second, "a listens", func() bool { return locktest.Subscribers(t, rdb, key) == 1 })
	rdb.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub")
	locktest.Eventually(t, 5*time.Second, "a listens again",
		func() bool { return locktest.Subscribers(t, rdb, key) == 1 })
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	locktest.TokenOf(t, locktest.Woken(t, reply))
}

func TestR18FirstComeFirstServed(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		holder := locktest.Connect(t, s)
		holder.Token(key)
		const n = 40 // more than the hand-overs in a row
		conns, replies := make([]*locktest.Client, n), make([]<-chan string, n)
		for i := range n {
			conns[i] = locktest.Connect(t, s)
			replies[i] = conns[i].Await(s, i+1, key, "BLOCK", "0")
		}
		if got := locktest.Subscribers(t, rdb, key); got != 1 {
			t.Errorf("got %d subscriptions for %d waiters, want 1", got, n)
		}
		last := int64(0)
		for i := range n {
			locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
			token := locktest.TokenOf(t, locktest.Receive(t, replies[i], 5*time.Second))
			if token <= last {
				t.Fatalf("waiter %d got token %d after %d", i, token, last)
			}
			last, holder = token, conns[i]
		}
		locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
		if locktest.Exists(t, rdb, key) || s.Waiting(locktest.LockOf(key)) != 0 {
			t.Error("something is left behind")
		}
	})
}

func TestR18WaiterThatLeavesPassesTheWakeUpOn(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
	a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
	a.Token(key)
	first := b.Await(s, 1, key, "BLOCK", "0")
	second := c.Await(s, 2, key, "BLOCK", "0")
	b.Gone()
	locktest.WantPrefix(t, locktest.Woken(t, first), "-LOCKTIMEOUT")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	locktest.TokenOf(t, locktest.Woken(t, second))
}

func TestR19DisconnectedWaiterIsNeverGranted(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		for i := range 50 { // the disconnect and the hand-over meet in every order
			a, b := locktest.Connect(t, s), locktest.Connect(t, s)
			a.Token(key)
			reply := b.Await(s, 1, key, "BLOCK", "0")
			released := a.Start("LOCK.RELEASE", key)
			if i%3 == 0 {
				<-time.After(time.Duration(i) * 20 * time.Microsecond)
			}
			b.Gone()
			b.Carrier.End(lockcmd.Release)
			locktest.Want(t, locktest.Receive(t, released, 5*time.Second), ":1")
			locktest.Receive(t, reply, 5*time.Second)
			locktest.Eventually(t, 2*time.Second, "nothing is left",
				func() bool { return !locktest.Exists(t, rdb, key) })
			locktest.Eventually(t, 2*time.Second, "no holds and waiters are counted", func() bool {
				return s.Stats().Holds == 0 && s.Stats().Waiters == 0 && !b.Guarded.Load()
			})
			if s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true }) != nil {
				t.Fatal("a hold is left in the index")
			}
		}
	})
}

func TestR21HandOverIsBounded(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		locktest.SubscribeFirst(t, s, script.LockChannel(key), key)
		holder := locktest.Connect(t, s)
		holder.Token(key)
		const n = 2 * wait.MaxHandovers
		conns, replies := make([]*locktest.Client, n), make([]<-chan string, n)
		for i := range n {
			conns[i] = locktest.Connect(t, s)
			replies[i] = conns[i].Await(s, i+1, key, "BLOCK", "0")
		}
		sub := rdb.Subscribe(context.Background(), script.LockChannel(key))
		defer sub.Close()
		published := sub.Channel()
		locktest.Eventually(t, 5*time.Second, "we listen too",
			func() bool { return locktest.Subscribers(t, rdb, key) >= 1 })
		if _, err := rdb.Ping(context.Background()).Result(); err != nil {
			t.Fatal(err)
		}
		for i := range wait.MaxHandovers {
			locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
			locktest.TokenOf(t, locktest.Receive(t, replies[i], 5*time.Second))
			holder = conns[i]
		}
		if got := s.Stats().Handovers; got != wait.MaxHandovers {
			t.Errorf("got %d hand-overs, want %d", got, wait.MaxHandovers)
		}
		if len(published) != 0 {
			t.Error("a hand-over was published")
		}
		locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, locktest.Receive(t, published, 5*time.Second).Payload, "0")
	})
}

// TestR21HandOverIsBoundedForTwo: The holder releases and then waits again, so the queue is empty
// between any two hand-overs.
func TestR21HandOverIsBoundedForTwo(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
		locktest.SubscribeFirst(t, s, script.LockChannel(key), key)
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		locktest.SubscribeFirst(t, other, script.LockChannel(key), key)
		a.Token(key)
		elsewhere := locktest.Connect(t, other).Await(other, 1, key, "BLOCK", "0")
		for range wait.MaxHandovers + 1 {
			reply := b.Await(s, 1, key, "BLOCK", "0")
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			select {
			case r := <-elsewhere:
				locktest.TokenOf(t, r)
				return
			case r := <-reply:
				locktest.TokenOf(t, r)
			case <-time.After(locktest.Soon):
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
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range [][]string{nil, {"WRITE"}} {
			s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
			a, b := locktest.Connect(t, s), locktest.Connect(t, s)
			a.Token(append([]string{key}, mode...)...)
			for range 3 * wait.MaxHandovers {
				reply := b.Await(s, 1, key, append([]string{"BLOCK", "0"}, mode...)...)
				locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
				locktest.TokenOf(t, locktest.Receive(t, reply, locktest.Soon))
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
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
	a, b, c := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
	a.Token(key, "TTL", "20000")
	first, second := b.Await(s, 1, key, "BLOCK", "0"), c.Await(s, 2, key, "BLOCK", "0")
	s.Drain()
	locktest.Want(t, locktest.Woken(t, first), "-"+refusal.Draining)
	locktest.Want(t, locktest.Woken(t, second), "-"+refusal.Draining)
	locktest.Want(t, b.Do("LOCK.ACQUIRE", locktest.NewKey()), "-"+refusal.Draining)
	rdb.PExpire(context.Background(), key, 10*time.Second)
	s.RenewAll(context.Background()) // R31
	if left := rdb.PTTL(context.Background(), key).Val(); left < 15*time.Second {
		t.Errorf("got TTL %v after the last renewal, want all of it", left)
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
}

func TestInfoShowsHolders(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		a := locktest.Connect(t, s)
		locktest.Want(t, a.Do("LOCK.INFO", key), "$-1")
		token := a.Token(key, "OWNER", "me")
		locktest.WantPrefix(t, a.Do("LOCK.INFO", key), fmt.Sprintf(
			"*22\r\n$5\r\nstate\r\n$4\r\nheld\r\n$4\r\nmode\r\n$5\r\nplain\r\n$5\r\nowner\r\n$2\r\nme\r\n$5\r\ntoken\r\n:%d\r\n$5\r\nholds\r\n:1\r\n", token))
		key = locktest.NewKey()
		rdb.HSet(ctx, key, "java:1", "2")
		rdb.PExpire(ctx, key, time.Minute)
		locktest.WantPrefix(t, a.Do("LOCK.INFO", key),
			"*22\r\n$5\r\nstate\r\n$4\r\nheld\r\n$4\r\nmode\r\n$5\r\nplain\r\n$5\r\nowner\r\n"+
				"$6\r\njava:1\r\n$5\r\ntoken\r\n$-1\r\n$5\r\nholds\r\n:2\r\n$8\r\nsince-ms\r\n$-1\r\n")
	})
}

func TestR21BlockEndsThoughAHandOverIsUnanswered(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: time.Minute}, locktest.SlowRetries)
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
	a.Token(key)
	var results atomic.Int64
	p.HoldBefore(func(request []byte) bool {
		if locktest.Running(script.AcquireScript, key)(request) {
			results.Add(1)
		}
		return false
	})
	reply := b.Await(s, 1, key, "BLOCK", "6000")
	locktest.Eventually(t, time.Second, "b has tried at its start and after its subscription", func() bool {
		id := wait.QueueID{Lock: locktest.LockOf(key), Channel: script.LockChannel(key)}
		return results.Load() == 2 && s.Waits.InQueue(id) == 1 && s.Waits.Rests(id)
	})
	late := p.HoldBefore(locktest.Running(script.HandoverScript, key), faultproxy.Always())
	began := time.Now()
	released := a.Start("LOCK.RELEASE", key)
	locktest.Want(t, locktest.Receive(t, reply, 5*time.Second), "$-1")
	if took := time.Since(began); took > locktest.Soon {
		t.Errorf("BLOCK 6000 was answered after %v", took)
	}
	late.Disarm()
	late.Release()
	locktest.Want(t, locktest.Receive(t, released, 5*time.Second), ":1")
	locktest.Eventually(t, 2*time.Second, "the grant is released",
		func() bool { return !locktest.Exists(t, locktest.RedisOf(straight), key) })
	if b.Carrier.Holds() != 0 {
		t.Error("the waiter has a hold")
	}
}

// TestWaitersAreLimited: A waiter above the limit is refused and leaves nothing behind. When
// another waiter leaves, a new one may wait.
func TestWaitersAreLimited(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{MaxWaiters: 2}), locktest.NewKey()
		a, b, c, d := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key)
		first := b.Await(s, 1, key, "BLOCK", "0")
		second := c.Await(s, 2, key, "BLOCK", "0")
		locktest.WantPrefix(t, d.Do("LOCK.ACQUIRE", key, "BLOCK", "0"), "-LOCKLIMIT ")
		s.Change(lockcmd.Config{MaxWaiters: 3})
		locktest.Want(t, d.Do("LOCK.ACQUIRE", key, "BLOCK", "10"), "$-1")
		s.Change(lockcmd.Config{MaxWaiters: 2})
		locktest.Want(t, d.Do("LOCK.ACQUIRE", key), "$-1")
		d.Token(locktest.NewKey(), "BLOCK", "0") // a request that need not wait is not refused
		if got := s.Stats(); got.Waiters != 2 || got.Limited != 1 {
			t.Errorf("got %d waiters and %d refused, want 2 and 1", got.Waiters, got.Limited)
		}
		c.Gone()
		locktest.WantPrefix(t, locktest.Receive(t, second, 5*time.Second), "-LOCKTIMEOUT ")
		third := d.Await(s, 2, key, "BLOCK", "0")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, first, 5*time.Second))
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, third, 5*time.Second))
		if waits := d.Waits.Load(); waits != 2 {
			t.Errorf("d's host was told of %d waits, want 2", waits)
		}
	})
}

// TestR17BlockCountsOnce: BLOCK includes the time of the first attempt, which Redis refused for all
// that time.
func TestR17BlockCountsOnce(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	s, _, p := locktest.StartFaulty(t, lockcmd.Config{})
	if err := p.Refuse(true); err != nil {
		t.Fatal(err)
	}
	p.Cut(faultproxy.FIN)
	for _, command := range [][]string{
		{"LOCK.ACQUIRE", locktest.NewKey(), "BLOCK", "10000"},
		{"LOCK.MACQUIRE", "1", locktest.NewKey(), "BLOCK", "10000"},
		{"SEM.ACQUIRE", locktest.NewKey(), "BLOCK", "10000"},
	} {
		t.Run(command[0], func(t *testing.T) {
			t.Parallel()
			a, began := locktest.Connect(t, s), time.Now()
			locktest.WantPrefix(t, a.Do(command...), "-LOCKTIMEOUT")
			if took := time.Since(began); took < 9900*time.Millisecond || took > 18*time.Second {
				t.Errorf("%s: answered after %v, want 10 to 12 s", command[0], took)
			}
		})
	}
}
