package release_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/proxy/slots"
	"leash/renewal"
)

// lateBreak is a BREAK that has read the holders, and that waits for goOn before it acts.
type lateBreak struct {
	t      *testing.T
	read   chan struct{} // closed when it has read the holders
	marked chan struct{} // closed when Redis has answered its first mark
	goOn   func()
}

// lateBreaker returns a Leash whose first BREAK waits.
func lateBreaker(t *testing.T, rdb redis.UniversalClient, prepare ...func(*lockcmd.Service)) (*lockcmd.Service,
	*lateBreak) {
	t.Helper()
	l, open := &lateBreak{t: t, read: make(chan struct{}), marked: make(chan struct{})}, make(chan struct{})
	l.goOn = sync.OnceFunc(func() { close(open) })
	read, marked := sync.OnceFunc(func() { close(l.read) }), sync.OnceFunc(func() { close(l.marked) })
	s := locktest.Start(t, rdb, lockcmd.Config{}, append(prepare, func(s *lockcmd.Service) {
		up, sha, mark := s.Redis.Links, []byte(script.ByName("tombstone").SHA), []byte("\r\nbroken\r\n")
		s.Redis.Links = locktest.LinksWith{Links: up, OnScript: func(until time.Time, writeBy *time.Time, db int,
			slot slots.Slot, command, dst []byte) ([]byte, bool, error) {
			if bytes.Contains(command, sha) && bytes.Contains(command, mark) {
				read()
				<-open
				defer marked()
			}
			return up.Script(until, writeBy, db, slot, command, dst)
		}}
	})...)
	t.Cleanup(l.goOn)
	return s, l
}

// start runs BREAK until it has read the holders.
func (l *lateBreak) start(s *lockcmd.Service, key string) (reply <-chan string) {
	l.t.Helper()
	reply = locktest.Connect(l.t, s).Start("LOCK.BREAK", key)
	locktest.Receive(l.t, l.read, locktest.Soon)
	return reply
}

// TestR30BreakBehindARelease: BREAK sees the hold, and its owner releases it before BREAK writes
// its mark. The mark does not count as the end of the hold.
func TestR30BreakBehindARelease(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range []string{"", "READ", "WRITE", "FAIR"} {
			s, third, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
				locktest.NewKey()
			other, late := lateBreaker(t, rdb)
			a := locktest.Connect(t, s)
			token := a.Token(append([]string{key}, strings.Fields(mode)...)...)
			w := third.Events.LossWait(locktest.LockOf(key), token)
			if _, over, err := w.Check(); over || err != nil || w.Seen == nil {
				t.Fatalf("%s: AWAITLOSS does not see the hold: %v", mode, err)
			}
			broken := late.start(other, key)
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			late.goOn()
			locktest.Want(t, locktest.Receive(t, broken, locktest.Soon), ":0")
			locktest.Want(t, rdb.Get(t.Context(), script.TombstoneKey(key, token, a.Carrier.Name)).Val(),
				event.Released)
			ctx, cancel := context.WithTimeout(t.Context(), locktest.Soon)
			if reason, err := w.Run(ctx); reason != "" || err != nil || ctx.Err() != nil {
				t.Errorf("%s: AWAITLOSS says %q, %v, %v", mode, reason, err, ctx.Err())
			}
			cancel()
		}
	})
}

// TestR30BreakWithoutAnAnswer: The hold's Leash does not report how the hold ended. It is then
// unknown whether the holder knows of the BREAK.
func TestR30BreakWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *lockcmd.Service) { s.Events.Own = "nowhere" }
		s, key := locktest.Start(t, rdb, lockcmd.Config{}, withoutEvents), locktest.NewKey()
		other, late := lateBreaker(t, rdb, locktest.DefaultBreakTimeout)
		a := locktest.Connect(t, s)
		a.Token(key)
		broken := late.start(other, key)
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		late.goOn()
		locktest.Want(t, locktest.Receive(t, broken, locktest.Soon), ":2")
	})
}

// TestR30BreakAndReleaseAtOnce: A BREAK and a release race. One of them ends the hold, and
// AWAITLOSS reports which one.
func TestR30BreakAndReleaseAtOnce(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, third := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{})
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		first := 0 // how often the release came first
		for i := range 24 {
			key := locktest.NewKey()
			token := a.Token(key, "ONLOSS", "ERROR")
			w := third.Events.LossWait(locktest.LockOf(key), token)
			locktest.Eventually(t, time.Second, "AWAITLOSS sees the hold", func() bool {
				_, over, err := w.Check()
				return !over && err == nil && w.Seen != nil
			})
			broken := b.Start("LOCK.BREAK", key)
			// a random delay, so that either can be first
			<-time.After(time.Duration(i%12) * 100 * time.Microsecond)
			released := a.Do("LOCK.RELEASE", key)
			ctx, cancel := context.WithTimeout(t.Context(), locktest.Soon)
			reason, err := w.Run(ctx)
			cancel()
			how := fmt.Sprintf("%s, BREAK %s, AWAITLOSS %q", released, locktest.Receive(t, broken, locktest.Soon),
				reason)
			switch how {
			case `:1, BREAK :0, AWAITLOSS ""`:
				first++
			case "-" + locktest.MsgLost(key, renewal.ReasonBroken) + `, BREAK :1, AWAITLOSS "broken"`:
			default:
				t.Fatalf("RELEASE %s, %v", how, err)
			}
		}
		t.Logf("%d releases came first", first)
	})
}

// TestR30BreakOfAHoldThatIsBeingEnded: The holder has been told of a loss, and the end of its lock
// is still pending. A second BREAK, or a release by the owner through another Leash, must not undo
// the loss.
func TestR30BreakOfAHoldThatIsBeingEnded(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range []string{"", "READ", "WRITE"} {
			other, key := locktest.Start(t, rdb, lockcmd.Config{}, locktest.PatientBreak), locktest.NewKey()
			s, late := lateBreaker(t, rdb, locktest.PatientBreak)
			a := locktest.Connect(t, s)
			token := a.Token(append([]string{key}, strings.Fields(mode)...)...)
			h := s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true })
			if !h.LockRequests(s.Redis.Deadline()) { // keeps the hold from being ended
				t.Fatal("its request lock is taken")
			}
			near := late.start(s, key)
			far := locktest.Connect(t, other).Start("LOCK.BREAK", key)
			locktest.Want(t, locktest.Receive(t, a.Losses, locktest.Soon), key+" "+renewal.ReasonBroken)
			tombstone := script.TombstoneKey(key, token, a.Carrier.Name)
			locktest.Eventually(t, locktest.Soon, "it is written down", func() bool {
				return rdb.Get(t.Context(), tombstone).Val() == "lost broken"
			})
			if how, err := s.Releaser.Tombstone(h, s.Redis.Deadline()); how != renewal.Broken || err != nil {
				t.Errorf("%s: the Leash that carries it reads %v, %v", mode, how, err)
			}
			late.goOn()
			locktest.Receive(t, late.marked, locktest.Soon)
			locktest.Want(t, locktest.Connect(t, other).Do("LOCK.RELEASE", key, "TOKEN", fmt.Sprint(token)),
				"-"+refusal.NotHeld)
			h.UnlockRequests()
			locktest.Eventually(t, locktest.Soon, "it is ended",
				func() bool { return a.Carrier.Holds() == 0 && !locktest.Exists(t, rdb, key) })
			locktest.Want(t, locktest.Receive(t, near, locktest.Soon), ":1")
			locktest.Want(t, locktest.Receive(t, far, locktest.Soon), ":1")
			locktest.Want(t, rdb.Get(t.Context(), tombstone).Val(), "lost broken")
		}
	})
}

// TestR30BreakWhileRedisIsSilent: Redis is silent. A BREAK whose holds have ended still gets an
// answer, even if nobody can say how they ended.
func TestR30BreakWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	withoutEvents := func(s *lockcmd.Service) { s.Events.Own = "nowhere" }
	other, s, p := locktest.StartFaulty(t, lockcmd.Config{}, withoutEvents)
	a, key := locktest.Connect(t, s), locktest.NewKey()
	token := a.Token(key)
	tombstone := script.TombstoneKey(key, token, a.Carrier.Name)
	silent := p.HoldBefore(faultproxy.All(faultproxy.Named("GET"), faultproxy.Holding(tombstone)), faultproxy.Always())
	began, broken := time.Now(), locktest.Connect(t, other).Start("LOCK.BREAK", key)
	locktest.Eventually(t, locktest.Soon, "it is marked",
		func() bool { return locktest.Exists(t, locktest.RedisOf(s), tombstone) })
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	if err := silent.Await(locktest.Soon); err != nil {
		t.Fatal(err)
	}
	p.Freeze()
	locktest.Want(t, locktest.Receive(t, broken, 15*time.Second), ":2")
	if took := time.Since(began); took > other.Releaser.BreakTimeout+5*time.Second {
		t.Errorf("BREAK took %v", took)
	}
	p.Thaw()
}

// TestR30BreakAndReleaseByAnotherLeash: As TestR30BreakAndReleaseAtOnce, with a release through
// another Leash. BREAK comes from that Leash, from the hold's Leash or from a third one.
func TestR30BreakAndReleaseByAnotherLeash(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, third := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.Start(t, rdb, lockcmd.Config{})
		a, c, first := locktest.Connect(t, s), locktest.Connect(t, other), 0
		for i := range 30 {
			b, key := locktest.Connect(t, []*lockcmd.Service{s, other, third}[i%3]), locktest.NewKey()
			token := a.Token(key, "ONLOSS", "ERROR", "OWNER", "me")
			broken := b.Start("LOCK.BREAK", key)
			// a random delay, so that either can be first
			<-time.After(time.Duration(i%15) * 100 * time.Microsecond)
			released := c.Do("LOCK.RELEASE", key, "TOKEN", fmt.Sprint(token))
			how := fmt.Sprintf("RELEASE %s, BREAK %s", released, locktest.Receive(t, broken, locktest.Soon))
			locktest.Eventually(t, locktest.Soon, "it is ended", func() bool { return a.Carrier.Holds() == 0 })
			switch how += ", " + a.Do("LOCK.CHECK", key, "TOKEN", fmt.Sprint(token)); how {
			case "RELEASE :1, BREAK :0, :0":
				first++
			case "RELEASE -" + refusal.NotHeld + ", BREAK :1, -" + locktest.MsgLost(key, renewal.ReasonBroken):
			default:
				t.Fatal(how)
			}
		}
		t.Logf("%d releases came first", first)
	})
}

// TestR30BreakOfALeaseThatEnds: A lease expires before BREAK has ended it. That is no loss.
func TestR30BreakOfALeaseThatEnds(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		for _, mode := range []string{"", "READ", "WRITE"} {
			a, key := locktest.Connect(t, s), locktest.NewKey()
			other, late := lateBreaker(t, rdb)
			token := a.Token(append([]string{key, "LEASE", "4000", "OWNER", "me"}, strings.Fields(mode)...)...)
			h := s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true })
			broken := late.start(other, key)
			locktest.Eventually(t, locktest.Soon, "it has ended by its Leash's count", func() bool {
				return h.State() == hold.Over || h.LeaseOver()
			})
			late.goOn()
			reply := locktest.Receive(t, broken, locktest.Soon)
			text := rdb.Get(t.Context(), script.TombstoneKey(key, token, a.Carrier.Name)).Val()
			switch how := fmt.Sprintf("BREAK %s, %q, %d losses", reply, text, len(a.Losses)); how {
			case `BREAK :0, "released", 0 losses`, `BREAK :2, "broken", 0 losses`:
			case `BREAK :1, "lost broken", 1 losses`:
				// BREAK read the hold just before it expired, so its end had to be reported
			case `BREAK :2, "lost broken", 1 losses`: // reported when BREAK did not wait any more
			default:
				t.Errorf("%s: %s", mode, how)
			}
		}
	})
}

// TestR30ReleaseOfALostHoldFreesTheLock: The holder was told of a loss, but Redis still has the
// hold. When the owner releases it through another Leash, the hold ends and the reply is NOTHELD.
func TestR30ReleaseOfALostHoldFreesTheLock(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range []string{"", "READ", "WRITE"} {
			s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
				locktest.NewKey()
			a := locktest.Connect(t, s)
			var token int64
			for range 2 {
				token = a.Token(append([]string{key, "OWNER", "me"}, strings.Fields(mode)...)...)
			}
			tombstone := script.TombstoneKey(key, token, a.Carrier.Name)
			rdb.Set(t.Context(), tombstone, event.Lost+" "+renewal.ReasonSilence, time.Minute)
			locktest.Want(t, locktest.Connect(t, other).Do("LOCK.RELEASE", key, "TOKEN", fmt.Sprint(token)),
				"-"+refusal.NotHeld)
			if locktest.Exists(t, rdb, key) {
				t.Errorf("%s: the lock is still taken", mode)
			}
			locktest.Want(t, rdb.Get(t.Context(), tombstone).Val(), event.Lost+" "+renewal.ReasonSilence)
		}
	})
}

// TestR30ForcedBreakIsFinal: BREAK has ended a hold without its Leash. AWAITLOSS does not wait for
// that Leash.
func TestR30ForcedBreakIsFinal(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *lockcmd.Service) { s.Events.Own = "nowhere" }
		tests := make(map[string]func(*testing.T))
		for _, mode := range []string{"", "READ", "WRITE"} {
			tests[mode] = func(t *testing.T) {
				s, other, third, key := locktest.Start(t, rdb, lockcmd.Config{}, withoutEvents),
					locktest.Start(t, rdb, lockcmd.Config{}, locktest.DefaultBreakTimeout),
					locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries), locktest.NewKey()
				a := locktest.Connect(t, s)
				token := a.Token(append([]string{key, "TTL", "600000"}, strings.Fields(mode)...)...)
				reply := locktest.Connect(t, third).Start("LOCK.AWAITLOSS", key, "TOKEN", fmt.Sprint(token), "BLOCK",
					"0")
				locktest.Eventually(t, locktest.Soon, "it listens", func() bool {
					return third.Events.LastMessage(locktest.LockMode(mode).Channel(key)) != 0
				})
				locktest.Want(t, locktest.Connect(t, other).Do("LOCK.BREAK", key), ":2")
				if got := locktest.Receive(t, reply, locktest.Soon); !strings.Contains(got, renewal.ReasonBroken) {
					t.Errorf("%s: got %q", mode, got)
				}
				locktest.Want(t, rdb.Get(t.Context(), script.TombstoneKey(key, token, a.Carrier.Name)).Val(),
					event.Forced)
				s.RenewAll(t.Context())
				locktest.Want(t, locktest.Receive(t, a.Losses, locktest.Soon), key+" "+renewal.ReasonBroken)
			}
		}
		locktest.RunParallel(t, tests)
	})
}
