package wait_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

func TestR22FirstComeFirstServedAcrossLeashes(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		services, key := []*lockcmd.Service{locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{})}, locktest.NewKey()
		holder := locktest.Connect(t, services[0])
		holder.Token(key, "FAIR")
		const n = 50
		conns, replies := make([]*locktest.Client, n), make([]<-chan string, n)
		for i := range n {
			conns[i] = locktest.Connect(t, services[i/3%2])
			replies[i] = conns[i].WaitFair(rdb, i+1, key, "BLOCK", "0")
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
		locktest.WantNothingLeft(t, rdb, key)
		for _, s := range services {
			if s.Stats().Waiters != 0 || s.Waiting(locktest.LockOf(key)) != 0 {
				t.Errorf("a waiter is left behind: %+v", s.Stats())
			}
		}
	})
}

func TestR21FairHandOverGoesToTheHeadOnly(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b, c, d := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, other), locktest.Connect(t, s)
		a.Token(key, "FAIR")
		first := b.WaitFair(rdb, 1, key, "BLOCK", "0")
		second := c.WaitFair(rdb, 2, key, "BLOCK", "0")
		third := d.WaitFair(rdb, 3, key, "BLOCK", "0")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1") // b gets it: b is the head and waits on this Leash
		locktest.TokenOf(t, locktest.Receive(t, first, 3*time.Second))
		handed := s.Stats().Handovers
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1") // c gets it, although d waits on this Leash
		locktest.TokenOf(t, locktest.Receive(t, second, 3*time.Second))
		if s.Stats().Handovers != handed || len(third) != 0 {
			t.Error("the lock was handed to one who is not the head")
		}
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, third, 3*time.Second))
		locktest.Want(t, d.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothingLeft(t, rdb, key)
	})
}

func TestR21FairHandOverIsBounded(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	holder := locktest.Connect(t, s)
	holder.Token(key, "FAIR")
	const n = 2 * wait.MaxHandovers
	conns, replies := make([]*locktest.Client, n), make([]<-chan string, n)
	for i := range n {
		conns[i] = locktest.Connect(t, s)
		replies[i] = conns[i].WaitFair(rdb, i+1, key, "BLOCK", "0")
	}
	for i := range n {
		locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, replies[i], 3*time.Second))
		holder = conns[i]
	}
	if got := s.Stats().Handovers; got == 0 || got >= n {
		t.Errorf("got %d hand-overs of %d grants, want most but not all", got, n)
	}
}

func TestR22TryNeverEnqueues(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key, "FAIR")
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "FAIR"), "$-1")
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "FAIR", "OWNER", "me"), "$-1")
		if queue := locktest.FairOrder(rdb, key); len(queue) != 0 {
			t.Errorf("got queue %v", queue)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.NewJavaFair(t, rdb, key, "java:1").Rdb.RPush(context.Background(), script.QueueKeys(key)[0], "java:1")
		rdb.ZAdd(context.Background(), script.QueueKeys(key)[1],
			redis.Z{Score: float64(time.Now().UnixMilli() + 60000), Member: "java:1"})
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "FAIR"), "$-1") // free, but another waiter is next
		b.Token(key)                                               // a plain acquire ignores the queue
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, locktest.FairOrder(rdb, key)[0], "java:1")
	})
}

func TestR22WaiterThatGivesUpIsDequeuedAtOnce(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		for what, leave := range map[string]func(c *locktest.Client){
			"block": func(*locktest.Client) {}, "disconnect": func(c *locktest.Client) { c.Gone() },
			"drain": func(c *locktest.Client) { c.Service.Drain() },
		} {
			s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
			rdb.HSet(ctx, key, "java:1", "1")
			rdb.PExpire(ctx, key, time.Minute)
			a, block := locktest.Connect(t, s), "0"
			if what == "block" {
				block = "300"
			}
			reply := a.WaitFair(rdb, 1, key, "BLOCK", block)
			next := locktest.NewJavaFair(t, rdb, key, "java:2")
			got := next.Lock()
			if len(locktest.FairOrder(rdb, key)) != 2 {
				t.Fatal("java does not wait")
			}
			before := locktest.FairScore(rdb, key, "java:2")
			leave(a)
			answer := locktest.Receive(t, reply, 3*time.Second)
			if what == "block" {
				locktest.Want(t, answer, "$-1")
			}
			if queue := locktest.FairOrder(rdb, key); what != "disconnect" && !slices.Equal(queue, []string{"java:2"}) {
				t.Errorf("%s: got queue %v", what, queue)
			}
			// the client does not wait for this
			locktest.Eventually(t, time.Second, what+": it has left", func() bool {
				return slices.Equal(locktest.FairOrder(rdb, key), []string{"java:2"})
			})
			if after := locktest.FairScore(rdb, key, "java:2"); after != before-300000 {
				t.Errorf("%s: the next one's score went from %d to %d", what, before, after)
			}
			locktest.NewJavaFair(t, rdb, key, "").Run(locktest.JavaForceUnlock)
			locktest.Receive(t, got, 3*time.Second)
			next.Unlock()
			if s.Stats().Waiters != 0 {
				t.Errorf("%s: a waiter is left", what)
			}
		}
	})
}

func TestR22WaiterThatLeavesAFreeLockWakesTheNext(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		rdb.HSet(ctx, key, "java:1", "1")
		rdb.PExpire(ctx, key, time.Minute)
		a := locktest.Connect(t, s)
		reply := a.WaitFair(rdb, 1, key, "BLOCK", "0")
		next := locktest.NewJavaFair(t, rdb, key, "java:2")
		got := next.Lock()
		rdb.Del(ctx, key) // no message is sent
		a.Gone()
		a.Carrier.End(lockcmd.Release)
		locktest.Receive(t, reply, 3*time.Second)
		locktest.Receive(t, got, 3*time.Second) // Java alone would wait for a minute
		next.Unlock()
		locktest.WantNothingLeft(t, rdb, key)
	})
}

func TestR22EveryReleaseWakesTheHead(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			context.Background()
		ways := map[string]func(a *locktest.Client, key string, token int64){
			"release": func(a *locktest.Client, key string,
				_ int64) {
				locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			},
			"disconnect": func(a *locktest.Client, _ string, _ int64) { a.Carrier.End(lockcmd.Release) },
			"elsewhere": func(_ *locktest.Client, key string, token int64) {
				locktest.Want(t, locktest.Connect(t, other).Do("LOCK.RELEASE", key, "TOKEN",
					strconv.FormatInt(token, 10)), ":1")
			},
			"hand-over": func(a *locktest.Client, key string, _ int64) {
				b := locktest.Connect(t, s)
				plain := b.Await(s, 1, key, "BLOCK", "0")
				handed := s.Stats().Handovers
				locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
				if s.Stats().Handovers != handed {
					t.Error("a plain waiter was handed the lock before the head of the queue")
				}
				b.Gone()
				locktest.Receive(t, plain, 3*time.Second)
				b.Carrier.End(lockcmd.Release) // if the plain acquire came first
			},
			"undo": func(a *locktest.Client, key string, _ int64) {
				s.Redis.Undo(script.UndoArgs{Lock: script.Lock{Key: key}, Mode: script.Plain, Owner: "me",
					Carrier: a.Carrier.Name, Acquire: 1, Number: 2})
			},
		}
		for what, release := range ways {
			for _, kind := range [][]string{nil, {"FAIR"}} {
				key := locktest.NewKey()
				a := locktest.Connect(t, s)
				token := a.Token(append([]string{key, "OWNER", "me"}, kind...)...)
				head := locktest.NewJavaFair(t, rdb, key, "java:1")
				got := head.Lock()
				began := time.Now()
				release(a, key, token)
				if took := locktest.Receive(t, got, 5*time.Second).Sub(began); took > locktest.Soon {
					t.Errorf("%s %v: Java was told after %v", what, kind, took)
				}
				head.Unlock()
				rdb.Del(ctx, script.QueueKeys(key)...)
			}
		}
	})
}

func TestR22DeadWaitersAreTakenOut(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		now := float64(time.Now().UnixMilli())
		queue := func(key, who string, score, alive float64) {
			rdb.RPush(ctx, script.QueueKeys(key)[0], who)
			if score != 0 {
				rdb.ZAdd(ctx, script.QueueKeys(key)[1], redis.Z{Score: score, Member: who})
			}
			if alive != 0 {
				rdb.ZAdd(ctx, script.QueueKeys(key)[2], redis.Z{Score: alive, Member: who})
			}
		}
		key := locktest.NewKey()
		queue(key, "ghost", 0, 0)                 // blocks Redisson for ever
		queue(key, "java:1", now-1, 0)            // its timeout has passed
		queue(key, "u:1", now+900000, now-25000)  // of a Leash that died
		queue(key, "java:2", now+1200000, 0)      // alive
		queue(key, "u:2", now+1500000, now-25000) // dead, but behind a live waiter
		a := locktest.Connect(t, s)
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "FAIR"), "$-1")
		if queue := locktest.FairOrder(rdb, key); !slices.Equal(queue, []string{"java:2", "u:2"}) {
			t.Fatalf("got queue %v", queue)
		}
		if got := locktest.FairScore(rdb, key, "java:2"); got != int64(now)+900000 {
			t.Errorf("the dead waiter of a Leash left %d to the next, want 300000 less", got-int64(now))
		}
		j := locktest.NewJavaFair(t, rdb, key, "java:2")
		if !j.Attempt() {
			t.Fatal("java did not get the lock in its turn")
		}
		j.Unlock()
		a.Token(key, "FAIR")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothingLeft(t, rdb, key)

		key = locktest.NewKey()
		queue(key, "u:1", now+900000, now-1)
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "FAIR"), "$-1") // Redis may have been away
		a.Token(key, "FAIR", "BLOCK", "10000")                     // its own heartbeat proves it alive
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")

		key = locktest.NewKey()
		queue(key, "java:1", now+1000, 0) // dead, but nobody can know before its timeout
		a.Token(key, "FAIR", "BLOCK", "0")
		if left := time.Now().UnixMilli() - int64(now) - 1000; left < 0 {
			t.Errorf("a waiter was passed by %d ms before its time was over", -left)
		}
	})
}

func TestR22LiveWaiterIsNotReaped(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		holder := locktest.NewJavaFair(t, rdb, key, "java:1")
		holder.TryLock()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		first := a.WaitFair(rdb, 1, key, "OWNER", "me:1", "BLOCK", "0")
		second := b.WaitFair(rdb, 2, key, "OWNER", "me:2", "BLOCK", "0")
		now := float64(time.Now().UnixMilli())
		rdb.ZAdd(ctx, script.QueueKeys(key)[1], redis.Z{Score: now + 1000, Member: "me:1"},
			redis.Z{Score: now + 9e6, Member: "me:2"})
		locktest.Eventually(t, 3*time.Second, "its score is raised", func() bool {
			return locktest.FairScore(rdb, key, "me:1") >= int64(now)+60000
		})
		if got := locktest.FairScore(rdb, key, "me:2"); got != int64(now)+9e6 {
			t.Errorf("a score was changed to %d", got)
		}
		rdb.ZAdd(ctx, script.QueueKeys(key)[1], redis.Z{Score: now, Member: "me:1"})
		// the waiter is reaped unless it has just made an attempt
		if locktest.NewJavaFair(t, rdb, key, "java:2").TryLock(); len(locktest.FairOrder(rdb, key)) == 1 {
			locktest.Eventually(t, 3*time.Second, "it goes back to its place", func() bool {
				return slices.Equal(locktest.FairOrder(rdb, key), []string{"me:1", "me:2"})
			})
		}
		holder.Unlock()
		locktest.TokenOf(t, locktest.Receive(t, first, 3*time.Second))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, second, 3*time.Second))
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		locktest.WantNothingLeft(t, rdb, key)
	})
}

func TestR22QueueKeysExpire(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		locktest.Connect(t, s).Token(key, "FAIR")
		a := locktest.Connect(t, s)
		reply := a.WaitFair(rdb, 1, key, "BLOCK", "0")
		locktest.NewJavaFair(t, rdb, key, "java:1").Attempt()
		for _, k := range script.QueueKeys(key) {
			left := rdb.PTTL(ctx, k).Val()
			if left < 24*time.Hour || left > 24*time.Hour+11*time.Minute {
				t.Errorf("%s has a TTL of %v", k, left)
			}
		}
		a.Gone()
		locktest.Receive(t, reply, 3*time.Second)
	})
}

func TestFairHoldsArePlainHolds(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		token := a.Token(key, "FAIR", "OWNER", "me")
		for _, again := range [][]string{{"FAIR"}, nil, {"FAIR", "BLOCK", "0"}} {
			if got := a.Token(append([]string{key, "OWNER", "me"}, again...)...); got != token {
				t.Fatalf("got token %d on entering again with %v, want %d", got, again, token)
			}
		}
		locktest.Want(t, locktest.Count(rdb, key, "me"), "4")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0"), "-"+refusal.Deadlock)
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0", "OWNER", "me"), "-"+refusal.Elsewhere)
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
		locktest.Want(t, b.Do("LOCK.RELEASE", key, "OWNER", "me"), ":0")
		if got := locktest.TokenOf(t, b.Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN",
			strconv.FormatInt(token, 10))); got != token {
			t.Fatalf("got token %d when attached, want %d", got, token)
		}
		a = locktest.Connect(t, s)
		reply := a.WaitFair(rdb, 1, key, "BLOCK", "0")
		locktest.Want(t, locktest.Connect(t, other).Do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(token, 10),
			"ALL"), ":1")
		if next := locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second)); next <= token {
			t.Errorf("got token %d after %d", next, token)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")

		token = a.Token(key, "OWNER", "me") // FAIR may re-enter a plain hold
		if got := a.Token(key, "FAIR", "OWNER", "me"); got != token {
			t.Fatalf("got token %d on entering a plain hold, want %d", got, token)
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "ALL"), ":1")
		locktest.WantNothingLeft(t, rdb, key)
	})
}

func TestR22OrderSurvivesAnAbsenceOfRedis(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), context.Background()
		holder := locktest.Connect(t, s)
		holder.Token(key)
		const n = 5
		conns, replies := make([]*locktest.Client, n), make([]<-chan string, n)
		for i := range n {
			conns[i] = locktest.Connect(t, s)
			replies[i] = conns[i].WaitFair(rdb, i+1, key, "BLOCK", "0")
		}
		away := `for _, who in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZINCRBY', KEYS[1], -12000, who) end`
		rdb.Eval(ctx, away, script.QueueKeys(key)[2:]) // as if no waiter had sent a heartbeat for long
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.ACQUIRE", key, "FAIR"), "$-1")
		locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
		for i := range n {
			locktest.TokenOf(t, locktest.Receive(t, replies[i], 3*time.Second))
			locktest.Want(t, conns[i].Do("LOCK.RELEASE", key), ":1")
		}
		locktest.WantNothingLeft(t, rdb, key)
	})
}

func TestInfoShowsFairWaiters(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b, c := locktest.Connect(t, s), locktest.Connect(t, other), locktest.Connect(t, s)
		a.Token(key, "FAIR", "OWNER", "me")
		fairs := b.WaitFair(rdb, 1, key, "BLOCK", "0")
		plains := c.Await(s, 1, key, "BLOCK", "0")
		locktest.NewJavaFair(t, rdb, key, "java:1").Attempt()
		for _, who := range []*locktest.Client{a, b} {
			reply := who.Do("LOCK.INFO", key)
			locktest.WantPrefix(t, reply, "*22\r\n$5\r\nstate\r\n$4\r\nheld\r\n$4\r\nmode\r\n$4\r\nfair\r\n")
			// only its own Leash knows a plain waiter
			waiters := map[*locktest.Client]string{a: ":3", b: ":2"}[who]
			if !strings.HasSuffix(reply, waiters) {
				t.Errorf("got %q, want waiters %s", reply, waiters)
			}
		}
		b.Gone()
		c.Gone()
		locktest.Receive(t, fairs, 3*time.Second)
		locktest.Receive(t, plains, 3*time.Second)
	})
}
