package release_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/release"
	"leash/lockcmd/script"
)

func TestR30BreakTellsTheHolderFirst(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		for _, where := range []*lockcmd.Service{s, other} {
			for _, waits := range []*lockcmd.Service{s, other} {
				for _, options := range [][]string{nil, {"OWNER", "me"}, {"LEASE", "60000"},
					{"OWNER", "me", "ONCLOSE", "EXPIRE"}, {"FAIR"}} {
					a, b, c, key := locktest.Connect(t, s), locktest.Connect(t, where), locktest.Connect(t, waits),
						locktest.NewKey()
					locktest.Want(t, b.Do("LOCK.BREAK", key), ":0")
					token := a.Token(append([]string{key}, options...)...)
					reply := c.Await(waits, 1, key, "BLOCK", "0")
					locktest.Want(t, b.Do("LOCK.BREAK", key), ":1")
					next := locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
					if next <= token || len(a.Losses) != 1 {
						t.Fatalf("%v: got token %d after %d, and %d losses", options, next, token, len(a.Losses))
					}
					locktest.Want(t, <-a.Losses, key+" broken")
					locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
					locktest.Eventually(t, time.Second, "the hold is dropped", func() bool {
						return a.Carrier.Holds() == 0 && !a.Guarded.Load()
					})
					a.Carrier.End(lockcmd.Release)
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
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		for _, where := range []*lockcmd.Service{s, other} {
			a, key := locktest.Connect(t, s), locktest.NewKey()
			a.Token(key, "OWNER", "me", "ONLOSS", "ERROR")
			a.Token(key, "OWNER", "me")
			locktest.Want(t, locktest.Connect(t, where).Do("LOCK.BREAK", key), ":1")
			locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+locktest.MsgLost(key, "broken"))
			locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
			token := a.Token(key, "ONLOSS", "ERROR")
			locktest.Want(t, a.Do("LOCK.BREAK", key), ":1") // its own lock
			locktest.Want(t, a.Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(token, 10)),
				"-"+locktest.MsgLost(key, "broken"))
		}
	})
}

func TestR30BreakForcesUnconfirmedHolds(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *lockcmd.Service) { s.Events.Own = "nowhere" }
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, withoutEvents),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries, locktest.DefaultBreakTimeout),
			locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		a.Token(key)
		reply := b.Await(other, 1, key, "BLOCK", "0")
		began := time.Now()
		locktest.Want(t, locktest.Connect(t, other).Do("LOCK.BREAK", key), ":2")
		if took := time.Since(began); took < release.BreakTimeout {
			t.Errorf("forced after %v", took)
		}
		locktest.TokenOf(t, locktest.Woken(t, reply))
		s.RenewAll(t.Context())
		locktest.Want(t, locktest.Receive(t, a.Losses, 3*time.Second), key+" broken")

		killed, kill := locktest.StartKillable(t, rdb, lockcmd.Config{})
		c, key := locktest.Connect(t, killed), locktest.NewKey()
		c.Token(key)
		kill()
		locktest.Want(t, b.Do("LOCK.BREAK", key), ":2")
		b.Token(key)
	})
}

func TestR30BreakOfRedissonsHold(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key, ctx := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey(),
			context.Background()
		rdb.HSet(ctx, key, "0a1b:7", "2")
		rdb.PExpire(ctx, key, time.Minute)
		reply := locktest.Connect(t, other).Await(other, 1, key, "BLOCK", "0")
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.BREAK", key), ":2")
		locktest.TokenOf(t, locktest.Woken(t, reply))
		key = locktest.NewKey()
		rdb.Set(ctx, key, "text", 0)
		locktest.WantPrefix(t, locktest.Connect(t, s).Do("LOCK.BREAK", key), "-WRONGTYPE")
	})
}

func TestR30BreakOfReadersAndWriters(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		a, b, c, w := locktest.Connect(t, s), locktest.Connect(t, other), locktest.Connect(t, other),
			locktest.Connect(t, s)
		key := locktest.NewKey()
		a.Token(key, "READ")
		b.Token(key, "READ", "OWNER", "me")
		b.Token(key, "READ", "OWNER", "me")
		reply := w.Await(s, 1, key, "WRITE", "BLOCK", "0")
		locktest.Want(t, c.Do("LOCK.BREAK", key), ":1")
		locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
		if len(a.Losses) != 1 || len(b.Losses) != 1 {
			t.Fatalf("got %d and %d losses, want 1 and 1", len(a.Losses), len(b.Losses))
		}
		locktest.Want(t, c.Do("LOCK.BREAK", key), ":1")
		locktest.Want(t, locktest.Receive(t, w.Losses, time.Second), key+" broken")

		key = locktest.NewKey()
		d, e := locktest.Connect(t, s), locktest.Connect(t, s)
		d.Token(key, "READ")
		java := locktest.NewJavaRW(t, rdb, key, "7")
		if !java.Read(time.Minute) {
			t.Fatal("Java cannot read")
		}
		locktest.Want(t, c.Do("LOCK.BREAK", key), ":2")
		locktest.Want(t, locktest.Receive(t, d.Losses, time.Second), key+" broken")
		e.Token(key, "WRITE")
	})
}

func TestR30BreakFollowsAHoldThatMoves(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	withoutEvents := func(s *lockcmd.Service) { s.Events.Own = "nowhere" }
	s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, withoutEvents), locktest.Start(t, rdb, lockcmd.Config{}),
		locktest.NewKey()
	a, b := locktest.Connect(t, s), locktest.Connect(t, other)
	token := a.Token(key, "OWNER", "me")
	broken := locktest.Connect(t, other).Start("LOCK.BREAK", key)
	locktest.Eventually(t, time.Second, "it is marked", func() bool {
		return locktest.Exists(t, rdb, script.TombstoneKey(key, token, a.Carrier.Name))
	})
	b.Attach(key, "me", token)
	locktest.Want(t, locktest.Receive(t, broken, 3*time.Second), ":1")
	locktest.Want(t, locktest.Receive(t, b.Losses, time.Second), key+" broken")
}

func TestR30BreakOfAReleasedHoldIsNoLoss(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	withoutEvents := func(s *lockcmd.Service) { s.Events.Own = "nowhere" }
	s, key := locktest.Start(t, rdb, lockcmd.Config{}, withoutEvents), locktest.NewKey()
	other, late := lateBreaker(t, rdb)
	a, b := locktest.Connect(t, s), locktest.Connect(t, other)
	token := a.Token(key, "OWNER", "me")
	broken := late.start(other, key)
	locktest.Want(t, b.Do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
	late.goOn()
	locktest.Want(t, locktest.Receive(t, broken, locktest.Soon), ":0")
	locktest.Want(t, rdb.Get(t.Context(), script.TombstoneKey(key, token, a.Carrier.Name)).Val(), event.Released)
	s.Watchdog.CheckAll()
	locktest.Eventually(t, 2*time.Second, "the hold is dropped", func() bool { return a.Carrier.Holds() == 0 })
	if len(a.Losses) != 0 {
		t.Error("a release was reported as a loss")
	}
}

func TestR30ForgedEventBreaksNothing(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	a := locktest.Connect(t, s)
	token := a.Token(key)
	for _, how := range []string{event.Broken, event.Released, event.Moved, event.Extended} {
		locktest.Deliver(s, event.Text(how, token, a.Carrier.Name, key))
	}
	<-time.After(200 * time.Millisecond)
	if len(a.Losses) != 0 || a.Carrier.Holds() != 1 {
		t.Fatal("a forged message has ended a hold")
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
}

func TestR7LostReplyOfBreak(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		locktest.LongBreakTimeout(s)
		a, key := locktest.Connect(t, straight), locktest.NewKey()
		token := a.Token(key)
		fault := arm(locktest.Running(script.ByName("tombstone"), script.TombstoneKey(key, token, a.Carrier.Name)))
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.BREAK", key), ":1")
		if fault.Count() != 1 {
			t.Fatal("nothing was lost")
		}
		locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" broken")

		dead, kill := locktest.StartKillable(t, locktest.RedisOf(straight), lockcmd.Config{})
		b, key := locktest.Connect(t, dead), locktest.NewKey()
		b.Token(key)
		kill()
		locktest.DefaultBreakTimeout(s)
		fault = arm(locktest.Running(script.RevokeScript, key))
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.BREAK", key), ":2")
		if fault.Count() != 1 || locktest.Exists(t, locktest.RedisOf(straight), key) {
			t.Fatal("not ended")
		}

		key = locktest.NewKey()
		locktest.RedisOf(straight).HSet(t.Context(), key, "0a1b:7", "1")
		fault = arm(locktest.Running(script.BreakScript, key))
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.BREAK", key), ":2")
		if fault.Count() != 1 || locktest.Exists(t, locktest.RedisOf(straight), key) {
			t.Fatal("not ended")
		}
	}
}

func TestR30UnansweredBreak(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
	a.Token(key)
	fault := p.DropBefore(locktest.Running(script.ReleaseScript, key), faultproxy.Always())
	locktest.Want(t, b.Do("LOCK.BREAK", key), "-"+refusal.BreakUnknown)
	locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" broken") // the reported hold is still ended
	fault.Disarm()
	locktest.Eventually(t, 2*time.Second, "it is ended",
		func() bool { return !locktest.Exists(t, locktest.RedisOf(straight), key) })
	a.Token(key)
	p.Freeze()
	locktest.Want(t, b.Do("LOCK.BREAK", key), "-"+refusal.NotAccepted)
	p.Thaw()
}

func TestR13BreakPassesAtMaxmemory(t *testing.T) {
	t.Parallel()
	rdb, ctx := locktest.DialServer(t, redistest.Start(t).Addr), context.Background()
	s, other := locktest.Start(t, rdb, lockcmd.Config{}),
		locktest.Start(t, rdb, lockcmd.Config{}, func(s *lockcmd.Service) { s.Events.Own = "nowhere" })
	a, b, mine, theirs, java := locktest.Connect(t, s), locktest.Connect(t, other), locktest.NewKey(),
		locktest.NewKey(), locktest.NewKey()
	a.Token(mine)
	b.Token(theirs)
	rdb.HSet(ctx, java, "0a1b:7", "1")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	c := locktest.Connect(t, s)
	locktest.Want(t, c.Do("LOCK.BREAK", mine), ":1")
	locktest.DefaultBreakTimeout(s)
	locktest.Want(t, c.Do("LOCK.BREAK", theirs), ":2")
	locktest.Want(t, c.Do("LOCK.BREAK", java), ":2")
}

func TestR30BreakContinuesAfterItsLeashIsKilled(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		breaker, kill := locktest.StartKillable(t, rdb, lockcmd.Config{})
		a := locktest.Connect(t, s)
		a.Token(key)
		h := s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.Redis.Deadline()) { // keeps the hold from being ended
			t.Fatal("its request lock is taken")
		}
		reply := locktest.Connect(t, breaker).Start("LOCK.BREAK", key)
		locktest.Want(t, locktest.Receive(t, a.Losses, 3*time.Second), key+" broken")
		kill()
		locktest.Want(t, locktest.Receive(t, reply, locktest.Soon), "-"+refusal.BreakUnknown)
		h.UnlockRequests()
		locktest.Eventually(t, 3*time.Second, "the hold is ended", func() bool { return !locktest.Exists(t, rdb, key) })
	})
}

// TestBreakWhatWasConfirmed checks that Break spares a holder that its caller has not seen.
func TestBreakWhatWasConfirmed(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		first, second := a.Token(key, "READ"), b.Token(key, "READ")
		for _, seen := range [][]int64{nil, {first}, {0}, {second, 1}} {
			if how, err := s.Break(0, key, seen); err != release.ErrOtherHolder {
				t.Errorf("%v: got %v, %v", seen, how, err)
			}
		}
		locktest.Want(t, a.Do("LOCK.CHECK", key, "TOKEN", fmt.Sprint(first)), ":1")
		if how, err := s.Break(0, key, []int64{second, first}); how != release.WasTold || err != nil {
			t.Errorf("got %v, %v", how, err)
		}
		if how, err := s.Break(0, key, []int64{first}); how != release.WasFree || err != nil {
			t.Errorf("a free lock: got %v, %v", how, err)
		}
	})
}

// TestR30BreakOvertakesTheGrant: A hold is broken before its Leash knows that it was granted. The
// first event comes too early, and the next one does not.
func TestR30BreakOvertakesTheGrant(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{}, locktest.PatientBreak)
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, straight), locktest.NewKey()
	b.Token(key)
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1") // from now on Redis knows the script
	late := p.HoldAfter(locktest.Running(script.AcquireScript, key))
	grant := a.Start("LOCK.ACQUIRE", key)
	<-late.Triggered()
	broken := b.Start("LOCK.BREAK", key)
	locktest.Eventually(t, 5*time.Second, "the hold is marked", func() bool {
		return len(locktest.RedisOf(straight).Keys(t.Context(), "{"+key+"}:leash:*").Val()) > 0
	})
	<-time.After(100 * time.Millisecond) // the event
	late.Release()
	locktest.WantPrefix(t, locktest.Receive(t, grant, 5*time.Second), ":")
	locktest.Want(t, locktest.Receive(t, broken, 2*locktest.Soon), ":1")
	locktest.Want(t, locktest.Receive(t, a.Losses, 5*time.Second), key+" broken")
}
