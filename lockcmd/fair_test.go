package lockcmd

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

func TestR22FirstComeFirstServedAcrossLeashes(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		services, key := []*Service{leash(t, rdb, Config{}), leash(t, rdb, Config{})}, newKey()
		holder := connect(t, services[0])
		holder.token(key, "FAIR")
		const n = 50
		conns, replies := make([]*conn, n), make([]<-chan string, n)
		for i := range n {
			conns[i] = connect(t, services[i/3%2])
			replies[i] = conns[i].waitFair(rdb, i+1, key, "BLOCK", "0")
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
		wantNothingLeft(t, rdb, key)
		for _, s := range services {
			if s.Stats().Waiters != 0 || s.Waiting(lockOf(key)) != 0 {
				t.Errorf("a waiter is left behind: %+v", s.Stats())
			}
		}
	})
}

func TestR21FairHandOverGoesToTheHeadOnly(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b, c, d := connect(t, s), connect(t, s), connect(t, other), connect(t, s)
		a.token(key, "FAIR")
		first := b.waitFair(rdb, 1, key, "BLOCK", "0")
		second := c.waitFair(rdb, 2, key, "BLOCK", "0")
		third := d.waitFair(rdb, 3, key, "BLOCK", "0")
		want(t, a.do("LOCK.RELEASE", key), ":1") // b gets it: b is the head and waits on this Leash
		tokenOf(t, receive(t, first, 3*time.Second))
		handed := s.Stats().Handovers
		want(t, b.do("LOCK.RELEASE", key), ":1") // c gets it, although d waits on this Leash
		tokenOf(t, receive(t, second, 3*time.Second))
		if s.Stats().Handovers != handed || len(third) != 0 {
			t.Error("the lock was handed to one who is not the head")
		}
		want(t, c.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, third, 3*time.Second))
		want(t, d.do("LOCK.RELEASE", key), ":1")
		wantNothingLeft(t, rdb, key)
	})
}

func TestR21FairHandOverIsBounded(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key := leash(t, rdb, Config{}), newKey()
	holder := connect(t, s)
	holder.token(key, "FAIR")
	const n = 2 * wait.MaxHandovers
	conns, replies := make([]*conn, n), make([]<-chan string, n)
	for i := range n {
		conns[i] = connect(t, s)
		replies[i] = conns[i].waitFair(rdb, i+1, key, "BLOCK", "0")
	}
	for i := range n {
		want(t, holder.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, replies[i], 3*time.Second))
		holder = conns[i]
	}
	if got := s.Stats().Handovers; got == 0 || got >= n {
		t.Errorf("got %d hand-overs of %d grants, want most but not all", got, n)
	}
}

func TestR22TryNeverEnqueues(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, s)
		a.token(key, "FAIR")
		want(t, b.do("LOCK.ACQUIRE", key, "FAIR"), "$-1")
		want(t, b.do("LOCK.ACQUIRE", key, "FAIR", "OWNER", "me"), "$-1")
		if queue := order(rdb, key); len(queue) != 0 {
			t.Errorf("got queue %v", queue)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		java(t, rdb, key, "java:1").rdb.RPush(context.Background(), script.QueueKeys(key)[0], "java:1")
		rdb.ZAdd(context.Background(), script.QueueKeys(key)[1],
			redis.Z{Score: float64(time.Now().UnixMilli() + 60000), Member: "java:1"})
		want(t, b.do("LOCK.ACQUIRE", key, "FAIR"), "$-1") // free, but another waiter is next
		b.token(key)                                      // a plain acquire ignores the queue
		want(t, b.do("LOCK.RELEASE", key), ":1")
		want(t, order(rdb, key)[0], "java:1")
	})
}

func TestR22WaiterThatGivesUpIsDequeuedAtOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		for what, leave := range map[string]func(c *conn){
			"block": func(*conn) {}, "disconnect": func(c *conn) { c.gone() },
			"drain": func(c *conn) { c.carrier.service.Drain() },
		} {
			s, key := leash(t, rdb, Config{}), newKey()
			rdb.HSet(ctx, key, "java:1", "1")
			rdb.PExpire(ctx, key, time.Minute)
			a, block := connect(t, s), "0"
			if what == "block" {
				block = "300"
			}
			reply := a.waitFair(rdb, 1, key, "BLOCK", block)
			next := java(t, rdb, key, "java:2")
			got := next.lock()
			if len(order(rdb, key)) != 2 {
				t.Fatal("java does not wait")
			}
			before := score(rdb, key, "java:2")
			leave(a)
			answer := receive(t, reply, 3*time.Second)
			if what == "block" {
				want(t, answer, "$-1")
			}
			if queue := order(rdb, key); what != "disconnect" && !slices.Equal(queue, []string{"java:2"}) {
				t.Errorf("%s: got queue %v", what, queue)
			}
			// the client does not wait for this
			eventually(t, time.Second, what+": it has left", func() bool {
				return slices.Equal(order(rdb, key), []string{"java:2"})
			})
			if after := score(rdb, key, "java:2"); after != before-300000 {
				t.Errorf("%s: the next one's score went from %d to %d", what, before, after)
			}
			java(t, rdb, key, "").run(javaForceUnlock)
			receive(t, got, 3*time.Second)
			next.unlock()
			if s.Stats().Waiters != 0 {
				t.Errorf("%s: a waiter is left", what)
			}
		}
	})
}

func TestR22WaiterThatLeavesAFreeLockWakesTheNext(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		rdb.HSet(ctx, key, "java:1", "1")
		rdb.PExpire(ctx, key, time.Minute)
		a := connect(t, s)
		reply := a.waitFair(rdb, 1, key, "BLOCK", "0")
		next := java(t, rdb, key, "java:2")
		got := next.lock()
		rdb.Del(ctx, key) // no message is sent
		a.gone()
		a.carrier.End(Release)
		receive(t, reply, 3*time.Second)
		receive(t, got, 3*time.Second) // Java alone would wait for a minute
		next.unlock()
		wantNothingLeft(t, rdb, key)
	})
}

func TestR22EveryReleaseWakesTheHead(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, ctx := leash(t, rdb, Config{}), leash(t, rdb, Config{}), context.Background()
		ways := map[string]func(a *conn, key string, token int64){
			"release":    func(a *conn, key string, _ int64) { want(t, a.do("LOCK.RELEASE", key), ":1") },
			"disconnect": func(a *conn, _ string, _ int64) { a.carrier.End(Release) },
			"elsewhere": func(_ *conn, key string, token int64) {
				want(t, connect(t, other).do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
			},
			"hand-over": func(a *conn, key string, _ int64) {
				b := connect(t, s)
				plain := b.await(s, 1, key, "BLOCK", "0")
				handed := s.Stats().Handovers
				want(t, a.do("LOCK.RELEASE", key), ":1")
				if s.Stats().Handovers != handed {
					t.Error("a plain waiter was handed the lock before the head of the queue")
				}
				b.gone()
				receive(t, plain, 3*time.Second)
				b.carrier.End(Release) // if the plain acquire came first
			},
			"undo": func(a *conn, key string, _ int64) {
				s.Redis.Undo(script.UndoArgs{Lock: script.Lock{Key: key}, Mode: script.Plain, Owner: "me",
					Carrier: a.carrier.Name, Acquire: 1, Number: 2})
			},
		}
		for what, release := range ways {
			for _, kind := range [][]string{nil, {"FAIR"}} {
				key := newKey()
				a := connect(t, s)
				token := a.token(append([]string{key, "OWNER", "me"}, kind...)...)
				head := java(t, rdb, key, "java:1")
				got := head.lock()
				began := time.Now()
				release(a, key, token)
				if took := receive(t, got, 5*time.Second).Sub(began); took > soon {
					t.Errorf("%s %v: Java was told after %v", what, kind, took)
				}
				head.unlock()
				rdb.Del(ctx, script.QueueKeys(key)...)
			}
		}
	})
}

func TestR22DeadWaitersAreTakenOut(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
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
		key := newKey()
		queue(key, "ghost", 0, 0)                 // blocks Redisson for ever
		queue(key, "java:1", now-1, 0)            // its timeout has passed
		queue(key, "u:1", now+900000, now-25000)  // of a Leash that died
		queue(key, "java:2", now+1200000, 0)      // alive
		queue(key, "u:2", now+1500000, now-25000) // dead, but behind a live waiter
		a := connect(t, s)
		want(t, a.do("LOCK.ACQUIRE", key, "FAIR"), "$-1")
		if queue := order(rdb, key); !slices.Equal(queue, []string{"java:2", "u:2"}) {
			t.Fatalf("got queue %v", queue)
		}
		if got := score(rdb, key, "java:2"); got != int64(now)+900000 {
			t.Errorf("the dead waiter of a Leash left %d to the next, want 300000 less", got-int64(now))
		}
		j := java(t, rdb, key, "java:2")
		if !j.attempt() {
			t.Fatal("java did not get the lock in its turn")
		}
		j.unlock()
		a.token(key, "FAIR")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		wantNothingLeft(t, rdb, key)

		key = newKey()
		queue(key, "u:1", now+900000, now-1)
		want(t, a.do("LOCK.ACQUIRE", key, "FAIR"), "$-1") // Redis may have been away
		a.token(key, "FAIR", "BLOCK", "10000")            // its own heartbeat proves it alive
		want(t, a.do("LOCK.RELEASE", key), ":1")

		key = newKey()
		queue(key, "java:1", now+1000, 0) // dead, but nobody can know before its timeout
		a.token(key, "FAIR", "BLOCK", "0")
		if left := time.Now().UnixMilli() - int64(now) - 1000; left < 0 {
			t.Errorf("a waiter was passed by %d ms before its time was over", -left)
		}
	})
}

func TestR22LiveWaiterIsNotReaped(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		holder := java(t, rdb, key, "java:1")
		holder.tryLock()
		a, b := connect(t, s), connect(t, s)
		first := a.waitFair(rdb, 1, key, "OWNER", "me:1", "BLOCK", "0")
		second := b.waitFair(rdb, 2, key, "OWNER", "me:2", "BLOCK", "0")
		now := float64(time.Now().UnixMilli())
		rdb.ZAdd(ctx, script.QueueKeys(key)[1], redis.Z{Score: now + 1000, Member: "me:1"},
			redis.Z{Score: now + 9e6, Member: "me:2"})
		eventually(t, 3*time.Second, "its score is raised", func() bool {
			return score(rdb, key, "me:1") >= int64(now)+60000
		})
		if got := score(rdb, key, "me:2"); got != int64(now)+9e6 {
			t.Errorf("a score was changed to %d", got)
		}
		rdb.ZAdd(ctx, script.QueueKeys(key)[1], redis.Z{Score: now, Member: "me:1"})
		// the waiter is reaped unless it has just made an attempt
		if java(t, rdb, key, "java:2").tryLock(); len(order(rdb, key)) == 1 {
			eventually(t, 3*time.Second, "it goes back to its place", func() bool {
				return slices.Equal(order(rdb, key), []string{"me:1", "me:2"})
			})
		}
		holder.unlock()
		tokenOf(t, receive(t, first, 3*time.Second))
		want(t, a.do("LOCK.RELEASE", key), ":1")
		tokenOf(t, receive(t, second, 3*time.Second))
		want(t, b.do("LOCK.RELEASE", key), ":1")
		wantNothingLeft(t, rdb, key)
	})
}

func TestR22QueueKeysExpire(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		connect(t, s).token(key, "FAIR")
		a := connect(t, s)
		reply := a.waitFair(rdb, 1, key, "BLOCK", "0")
		java(t, rdb, key, "java:1").attempt()
		for _, k := range script.QueueKeys(key) {
			left := rdb.PTTL(ctx, k).Val()
			if left < 24*time.Hour || left > 24*time.Hour+11*time.Minute {
				t.Errorf("%s has a TTL of %v", k, left)
			}
		}
		a.gone()
		receive(t, reply, 3*time.Second)
	})
}

func TestFairHoldsArePlainHolds(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, other)
		token := a.token(key, "FAIR", "OWNER", "me")
		for _, again := range [][]string{{"FAIR"}, nil, {"FAIR", "BLOCK", "0"}} {
			if got := a.token(append([]string{key, "OWNER", "me"}, again...)...); got != token {
				t.Fatalf("got token %d on entering again with %v, want %d", got, again, token)
			}
		}
		want(t, count(rdb, key, "me"), "4")
		want(t, a.do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0"), "-"+refusal.Deadlock)
		want(t, b.do("LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0", "OWNER", "me"), "-"+refusal.Elsewhere)
		want(t, a.do("LOCK.RELEASE", key), ":0")
		want(t, b.do("LOCK.RELEASE", key, "OWNER", "me"), ":0")
		if got := tokenOf(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN",
			strconv.FormatInt(token, 10))); got != token {
			t.Fatalf("got token %d when attached, want %d", got, token)
		}
		a = connect(t, s)
		reply := a.waitFair(rdb, 1, key, "BLOCK", "0")
		want(t, connect(t, other).do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(token, 10), "ALL"), ":1")
		if next := tokenOf(t, receive(t, reply, 3*time.Second)); next <= token {
			t.Errorf("got token %d after %d", next, token)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")

		token = a.token(key, "OWNER", "me") // FAIR may re-enter a plain hold
		if got := a.token(key, "FAIR", "OWNER", "me"); got != token {
			t.Fatalf("got token %d on entering a plain hold, want %d", got, token)
		}
		want(t, a.do("LOCK.RELEASE", key, "ALL"), ":1")
		wantNothingLeft(t, rdb, key)
	})
}

func TestR22OrderSurvivesAnAbsenceOfRedis(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key, ctx := leash(t, rdb, Config{}), newKey(), context.Background()
		holder := connect(t, s)
		holder.token(key)
		const n = 5
		conns, replies := make([]*conn, n), make([]<-chan string, n)
		for i := range n {
			conns[i] = connect(t, s)
			replies[i] = conns[i].waitFair(rdb, i+1, key, "BLOCK", "0")
		}
		away := `for _, who in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZINCRBY', KEYS[1], -12000, who) end`
		rdb.Eval(ctx, away, script.QueueKeys(key)[2:]) // as if no waiter had sent a heartbeat for long
		want(t, connect(t, s).do("LOCK.ACQUIRE", key, "FAIR"), "$-1")
		want(t, holder.do("LOCK.RELEASE", key), ":1")
		for i := range n {
			tokenOf(t, receive(t, replies[i], 3*time.Second))
			want(t, conns[i].do("LOCK.RELEASE", key), ":1")
		}
		wantNothingLeft(t, rdb, key)
	})
}

func TestInfoShowsFairWaiters(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b, c := connect(t, s), connect(t, other), connect(t, s)
		a.token(key, "FAIR", "OWNER", "me")
		fairs := b.waitFair(rdb, 1, key, "BLOCK", "0")
		plains := c.await(s, 1, key, "BLOCK", "0")
		java(t, rdb, key, "java:1").attempt()
		for _, who := range []*conn{a, b} {
			reply := who.do("LOCK.INFO", key)
			wantPrefix(t, reply, "*22\r\n$5\r\nstate\r\n$4\r\nheld\r\n$4\r\nmode\r\n$4\r\nfair\r\n")
			// only its own Leash knows a plain waiter
			waiters := map[*conn]string{a: ":3", b: ":2"}[who]
			if !strings.HasSuffix(reply, waiters) {
				t.Errorf("got %q, want waiters %s", reply, waiters)
			}
		}
		b.gone()
		c.gone()
		receive(t, fairs, 3*time.Second)
		receive(t, plains, 3*time.Second)
	})
}
