package lockcmd

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/release"
	"leash/lockcmd/script"
)

func TestR30BreakTellsTheHolderFirst(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for _, where := range []*Service{s, other} {
			for _, waits := range []*Service{s, other} {
				for _, options := range [][]string{nil, {"OWNER", "me"}, {"LEASE", "60000"},
					{"OWNER", "me", "ONCLOSE", "EXPIRE"}, {"FAIR"}} {
					a, b, c, key := connect(t, s), connect(t, where), connect(t, waits), newKey()
					want(t, b.do("LOCK.BREAK", key), ":0")
					token := a.token(append([]string{key}, options...)...)
					reply := c.await(waits, 1, key, "BLOCK", "0")
					want(t, b.do("LOCK.BREAK", key), ":1")
					next := tokenOf(t, receive(t, reply, 3*time.Second))
					if next <= token || len(a.losses) != 1 {
						t.Fatalf("%v: got token %d after %d, and %d losses", options, next, token, len(a.losses))
					}
					want(t, <-a.losses, key+" broken")
					want(t, c.do("LOCK.RELEASE", key), ":1")
					eventually(t, time.Second, "the hold is dropped", func() bool {
						return a.carrier.Holds() == 0 && !a.guarded.Load()
					})
					a.carrier.End(Release)
				}
			}
		}
		if n := s.Stats().Losses["broken"]; n != 20 {
			t.Errorf("got %d losses counted, want 20", n)
		}
	})
}

func TestR30BreakWithOnLossError(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for _, where := range []*Service{s, other} {
			a, key := connect(t, s), newKey()
			a.token(key, "OWNER", "me", "ONLOSS", "ERROR")
			a.token(key, "OWNER", "me")
			want(t, connect(t, where).do("LOCK.BREAK", key), ":1")
			want(t, a.do("LOCK.RELEASE", key), "-"+msgLost(key, "broken"))
			want(t, a.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
			token := a.token(key, "ONLOSS", "ERROR")
			want(t, a.do("LOCK.BREAK", key), ":1") // its own lock
			want(t, a.do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)), "-"+msgLost(key, "broken"))
		}
	})
}

func TestR30BreakForcesUnconfirmedHolds(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *Service) { s.Events.Own = "nowhere" }
		s, other, key := leash(t, rdb, Config{}, withoutEvents),
			leash(t, rdb, Config{}, slowRetries, defaultBreakTimeout), newKey()
		a, b := connect(t, s), connect(t, other)
		a.token(key)
		reply := b.await(other, 1, key, "BLOCK", "0")
		began := time.Now()
		want(t, connect(t, other).do("LOCK.BREAK", key), ":2")
		if took := time.Since(began); took < release.BreakTimeout {
			t.Errorf("forced after %v", took)
		}
		tokenOf(t, woken(t, reply))
		s.RenewAll(t.Context())
		want(t, receive(t, a.losses, 3*time.Second), key+" broken")

		killed, kill := killableLeash(t, rdb, Config{})
		c, key := connect(t, killed), newKey()
		c.token(key)
		kill()
		want(t, b.do("LOCK.BREAK", key), ":2")
		b.token(key)
	})
}

func TestR30BreakOfRedissonsHold(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key, ctx := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries), newKey(),
			context.Background()
		rdb.HSet(ctx, key, "0a1b:7", "2")
		rdb.PExpire(ctx, key, time.Minute)
		reply := connect(t, other).await(other, 1, key, "BLOCK", "0")
		want(t, connect(t, s).do("LOCK.BREAK", key), ":2")
		tokenOf(t, woken(t, reply))
		key = newKey()
		rdb.Set(ctx, key, "text", 0)
		wantPrefix(t, connect(t, s).do("LOCK.BREAK", key), "-WRONGTYPE")
	})
}

func TestR30BreakOfReadersAndWriters(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		a, b, c, w := connect(t, s), connect(t, other), connect(t, other), connect(t, s)
		key := newKey()
		a.token(key, "READ")
		b.token(key, "READ", "OWNER", "me")
		b.token(key, "READ", "OWNER", "me")
		reply := w.await(s, 1, key, "WRITE", "BLOCK", "0")
		want(t, c.do("LOCK.BREAK", key), ":1")
		tokenOf(t, receive(t, reply, 3*time.Second))
		if len(a.losses) != 1 || len(b.losses) != 1 {
			t.Fatalf("got %d and %d losses, want 1 and 1", len(a.losses), len(b.losses))
		}
		want(t, c.do("LOCK.BREAK", key), ":1")
		want(t, receive(t, w.losses, time.Second), key+" broken")

		key = newKey()
		d, e := connect(t, s), connect(t, s)
		d.token(key, "READ")
		java := newJavaRW(t, rdb, key, "7")
		if !java.read(time.Minute) {
			t.Fatal("Java cannot read")
		}
		want(t, c.do("LOCK.BREAK", key), ":2")
		want(t, receive(t, d.losses, time.Second), key+" broken")
		e.token(key, "WRITE")
	})
}

func TestR30BreakFollowsAHoldThatMoves(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	withoutEvents := func(s *Service) { s.Events.Own = "nowhere" }
	s, other, key := leash(t, rdb, Config{}, withoutEvents), leash(t, rdb, Config{}), newKey()
	a, b := connect(t, s), connect(t, other)
	token := a.token(key, "OWNER", "me")
	broken := connect(t, other).start("LOCK.BREAK", key)
	eventually(t, time.Second, "it is marked", func() bool {
		return exists(t, rdb, script.TombstoneKey(key, token, a.carrier.Name))
	})
	b.attach(key, "me", token)
	want(t, receive(t, broken, 3*time.Second), ":1")
	want(t, receive(t, b.losses, time.Second), key+" broken")
}

func TestR30BreakOfAReleasedHoldIsNoLoss(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	withoutEvents := func(s *Service) { s.Events.Own = "nowhere" }
	s, key := leash(t, rdb, Config{}, withoutEvents), newKey()
	other, late := lateBreaker(t, rdb)
	a, b := connect(t, s), connect(t, other)
	token := a.token(key, "OWNER", "me")
	broken := late.start(other, key)
	want(t, b.do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
	late.goOn()
	want(t, receive(t, broken, soon), ":0")
	want(t, rdb.Get(t.Context(), script.TombstoneKey(key, token, a.carrier.Name)).Val(), event.Released)
	s.Watchdog.CheckAll()
	eventually(t, 2*time.Second, "the hold is dropped", func() bool { return a.carrier.Holds() == 0 })
	if len(a.losses) != 0 {
		t.Error("a release was reported as a loss")
	}
}

func TestR30ForgedEventBreaksNothing(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, key := leash(t, rdb, Config{}), newKey()
	a := connect(t, s)
	token := a.token(key)
	for _, how := range []string{event.Broken, event.Released, event.Moved, event.Extended} {
		s.receive(event.Text(how, token, a.carrier.Name, key))
	}
	<-time.After(200 * time.Millisecond)
	if len(a.losses) != 0 || a.carrier.Holds() != 1 {
		t.Fatal("a forged message has ended a hold")
	}
	want(t, a.do("LOCK.RELEASE", key), ":1")
}

func TestR7LostReplyOfBreak(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{})
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		longBreakTimeout(s)
		a, key := connect(t, straight), newKey()
		token := a.token(key)
		fault := arm(running(script.ByName("tombstone"), script.TombstoneKey(key, token, a.carrier.Name)))
		want(t, connect(t, s).do("LOCK.BREAK", key), ":1")
		if fault.Count() != 1 {
			t.Fatal("nothing was lost")
		}
		want(t, receive(t, a.losses, time.Second), key+" broken")

		dead, kill := killableLeash(t, straight.Redis.Redis, Config{})
		b, key := connect(t, dead), newKey()
		b.token(key)
		kill()
		defaultBreakTimeout(s)
		fault = arm(running(script.RevokeScript, key))
		want(t, connect(t, s).do("LOCK.BREAK", key), ":2")
		if fault.Count() != 1 || exists(t, straight.Redis.Redis, key) {
			t.Fatal("not ended")
		}

		key = newKey()
		straight.Redis.Redis.HSet(t.Context(), key, "0a1b:7", "1")
		fault = arm(running(script.BreakScript, key))
		want(t, connect(t, s).do("LOCK.BREAK", key), ":2")
		if fault.Count() != 1 || exists(t, straight.Redis.Redis, key) {
			t.Fatal("not ended")
		}
	}
}

func TestR30UnansweredBreak(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	a, b, key := connect(t, s), connect(t, s), newKey()
	a.token(key)
	fault := p.DropBefore(running(script.ReleaseScript, key), faultproxy.Always())
	want(t, b.do("LOCK.BREAK", key), "-"+refusal.BreakUnknown)
	want(t, receive(t, a.losses, time.Second), key+" broken") // the reported hold is still ended
	fault.Disarm()
	eventually(t, 2*time.Second, "it is ended", func() bool { return !exists(t, straight.Redis.Redis, key) })
	a.token(key)
	p.Freeze()
	want(t, b.do("LOCK.BREAK", key), "-"+refusal.Refused)
	p.Thaw()
}

func TestR13BreakPassesAtMaxmemory(t *testing.T) {
	t.Parallel()
	rdb, ctx := dialServer(t, redistest.Start(t).Addr), context.Background()
	s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{}, func(s *Service) { s.Events.Own = "nowhere" })
	a, b, mine, theirs, java := connect(t, s), connect(t, other), newKey(), newKey(), newKey()
	a.token(mine)
	b.token(theirs)
	rdb.HSet(ctx, java, "0a1b:7", "1")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	c := connect(t, s)
	want(t, c.do("LOCK.BREAK", mine), ":1")
	defaultBreakTimeout(s)
	want(t, c.do("LOCK.BREAK", theirs), ":2")
	want(t, c.do("LOCK.BREAK", java), ":2")
}

func TestR30BreakContinuesAfterItsLeashIsKilled(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		breaker, kill := killableLeash(t, rdb, Config{})
		a := connect(t, s)
		a.token(key)
		h := s.Holds.Find(lockOf(key), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.deadline()) { // keeps the hold from being ended
			t.Fatal("its request lock is taken")
		}
		reply := connect(t, breaker).start("LOCK.BREAK", key)
		want(t, receive(t, a.losses, 3*time.Second), key+" broken")
		kill()
		want(t, receive(t, reply, soon), "-"+refusal.BreakUnknown)
		h.UnlockRequests()
		eventually(t, 3*time.Second, "the hold is ended", func() bool { return !exists(t, rdb, key) })
	})
}

// TestBreakWhatWasConfirmed checks that Break spares a holder that its caller has not seen.
func TestBreakWhatWasConfirmed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, s)
		first, second := a.token(key, "READ"), b.token(key, "READ")
		for _, seen := range [][]int64{nil, {first}, {0}, {second, 1}} {
			if how, err := s.Break(0, key, seen); err != release.ErrOtherHolder {
				t.Errorf("%v: got %v, %v", seen, how, err)
			}
		}
		want(t, a.do("LOCK.CHECK", key, "TOKEN", fmt.Sprint(first)), ":1")
		if how, err := s.Break(0, key, []int64{second, first}); how != release.WasTold || err != nil {
			t.Errorf("got %v, %v", how, err)
		}
		if how, err := s.Break(0, key, []int64{first}); how != release.WasFree || err != nil {
			t.Errorf("a free lock: got %v, %v", how, err)
		}
	})
}
