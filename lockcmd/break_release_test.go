package lockcmd

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
func lateBreaker(t *testing.T, rdb redis.UniversalClient, prepare ...func(*Service)) (*Service, *lateBreak) {
	t.Helper()
	l, open := &lateBreak{t: t, read: make(chan struct{}), marked: make(chan struct{})}, make(chan struct{})
	l.goOn = sync.OnceFunc(func() { close(open) })
	read, marked := sync.OnceFunc(func() { close(l.read) }), sync.OnceFunc(func() { close(l.marked) })
	s := leash(t, rdb, Config{}, append(prepare, func(s *Service) {
		up, sha, mark := s.Redis.Links, []byte(script.ByName("tombstone").SHA), []byte("\r\nbroken\r\n")
		s.Redis.Links = linksWith{Links: up, script: func(until time.Time, writeBy *time.Time, db int,
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
func (l *lateBreak) start(s *Service, key string) (reply <-chan string) {
	l.t.Helper()
	reply = connect(l.t, s).start("LOCK.BREAK", key)
	receive(l.t, l.read, soon)
	return reply
}

// TestR30BreakBehindARelease: BREAK sees the hold, and its owner releases it before BREAK writes
// its mark. The mark does not count as the end of the hold.
func TestR30BreakBehindARelease(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range []string{"", "READ", "WRITE", "FAIR"} {
			s, third, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
			other, late := lateBreaker(t, rdb)
			a := connect(t, s)
			token := a.token(append([]string{key}, strings.Fields(mode)...)...)
			w := third.Events.lossWait(lockOf(key), token)
			if _, over, err := w.Check(); over || err != nil || w.Seen == nil {
				t.Fatalf("%s: AWAITLOSS does not see the hold: %v", mode, err)
			}
			broken := late.start(other, key)
			want(t, a.do("LOCK.RELEASE", key), ":1")
			late.goOn()
			want(t, receive(t, broken, soon), ":0")
			want(t, rdb.Get(t.Context(), script.TombstoneKey(key, token, a.carrier.Name)).Val(), event.Released)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *Service) { s.Events.Own = "nowhere" }
		s, key := leash(t, rdb, Config{}, withoutEvents), newKey()
		other, late := lateBreaker(t, rdb, defaultBreakTimeout)
		a := connect(t, s)
		a.token(key)
		broken := late.start(other, key)
		want(t, a.do("LOCK.RELEASE", key), ":1")
		late.goOn()
		want(t, receive(t, broken, soon), ":2")
	})
}

// TestR30BreakAndReleaseAtOnce: A BREAK and a release race. One of them ends the hold, and
// AWAITLOSS reports which one.
func TestR30BreakAndReleaseAtOnce(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, third := leash(t, rdb, Config{}), leash(t, rdb, Config{}), leash(t, rdb, Config{})
		a, b, c := connect(t, s), connect(t, other), connect(t, third)
		first := 0 // how often the release came first
		for i := range 24 {
			key := newKey()
			token := a.token(key, "ONLOSS", "ERROR")
			w := third.Events.lossWait(c.carrier.id(key), token)
			eventually(t, time.Second, "AWAITLOSS sees the hold", func() bool {
				_, over, err := w.Check()
				return !over && err == nil && w.Seen != nil
			})
			broken := b.start("LOCK.BREAK", key)
			// a random delay, so that either can be first
			<-time.After(time.Duration(i%12) * 100 * time.Microsecond)
			released := a.do("LOCK.RELEASE", key)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			reason, err := w.Run(ctx)
			cancel()
			how := fmt.Sprintf("%s, BREAK %s, AWAITLOSS %q", released, receive(t, broken, soon), reason)
			switch how {
			case `:1, BREAK :0, AWAITLOSS ""`:
				first++
			case "-" + msgLost(key, renewal.ReasonBroken) + `, BREAK :1, AWAITLOSS "broken"`:
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range []string{"", "READ", "WRITE"} {
			other, key := leash(t, rdb, Config{}, patientBreak), newKey()
			s, late := lateBreaker(t, rdb, patientBreak)
			a := connect(t, s)
			token := a.token(append([]string{key}, strings.Fields(mode)...)...)
			h := s.Holds.Find(lockOf(key), func(*hold.Hold) bool { return true })
			if !h.LockRequests(s.deadline()) { // keeps the hold from being ended
				t.Fatal("its request lock is taken")
			}
			near := late.start(s, key)
			far := connect(t, other).start("LOCK.BREAK", key)
			want(t, receive(t, a.losses, soon), key+" "+renewal.ReasonBroken)
			tombstone := script.TombstoneKey(key, token, a.carrier.Name)
			eventually(t, soon, "it is written down", func() bool {
				return rdb.Get(t.Context(), tombstone).Val() == "lost broken"
			})
			if how, err := s.Releaser.Tombstone(h, s.deadline()); how != renewal.Broken || err != nil {
				t.Errorf("%s: the Leash that carries it reads %v, %v", mode, how, err)
			}
			late.goOn()
			receive(t, late.marked, soon)
			want(t, connect(t, other).do("LOCK.RELEASE", key, "TOKEN", fmt.Sprint(token)), "-"+refusal.NotHeld)
			h.UnlockRequests()
			eventually(t, soon, "it is ended", func() bool { return a.carrier.Holds() == 0 && !exists(t, rdb, key) })
			want(t, receive(t, near, soon), ":1")
			want(t, receive(t, far, soon), ":1")
			want(t, rdb.Get(t.Context(), tombstone).Val(), "lost broken")
		}
	})
}

// TestR30BreakWhileRedisIsSilent: Redis is silent. A BREAK whose holds have ended still gets an
// answer, even if nobody can say how they ended.
func TestR30BreakWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	withoutEvents := func(s *Service) { s.Events.Own = "nowhere" }
	other, s, p := faulty(t, Config{}, withoutEvents)
	a, key := connect(t, s), newKey()
	token := a.token(key)
	tombstone := script.TombstoneKey(key, token, a.carrier.Name)
	silent := p.HoldBefore(faultproxy.All(faultproxy.Named("GET"), faultproxy.Holding(tombstone)), faultproxy.Always())
	began, broken := time.Now(), connect(t, other).start("LOCK.BREAK", key)
	eventually(t, soon, "it is marked", func() bool { return exists(t, s.Redis.Redis, tombstone) })
	want(t, a.do("LOCK.RELEASE", key), ":1")
	if err := silent.Await(soon); err != nil {
		t.Fatal(err)
	}
	p.Freeze()
	want(t, receive(t, broken, 15*time.Second), ":2")
	if took := time.Since(began); took > other.Releaser.BreakTimeout+5*time.Second {
		t.Errorf("BREAK took %v", took)
	}
	p.Thaw()
}

// TestR30BreakAndReleaseByAnotherLeash: As TestR30BreakAndReleaseAtOnce, with a release through
// another Leash. BREAK comes from that Leash, from the hold's Leash or from a third one.
func TestR30BreakAndReleaseByAnotherLeash(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, third := leash(t, rdb, Config{}), leash(t, rdb, Config{}), leash(t, rdb, Config{})
		a, c, first := connect(t, s), connect(t, other), 0
		for i := range 30 {
			b, key := connect(t, []*Service{s, other, third}[i%3]), newKey()
			token := a.token(key, "ONLOSS", "ERROR", "OWNER", "me")
			broken := b.start("LOCK.BREAK", key)
			// a random delay, so that either can be first
			<-time.After(time.Duration(i%15) * 100 * time.Microsecond)
			released := c.do("LOCK.RELEASE", key, "TOKEN", fmt.Sprint(token))
			how := fmt.Sprintf("RELEASE %s, BREAK %s", released, receive(t, broken, soon))
			eventually(t, soon, "it is ended", func() bool { return a.carrier.Holds() == 0 })
			switch how += ", " + a.do("LOCK.CHECK", key, "TOKEN", fmt.Sprint(token)); how {
			case "RELEASE :1, BREAK :0, :0":
				first++
			case "RELEASE -" + refusal.NotHeld + ", BREAK :1, -" + msgLost(key, renewal.ReasonBroken):
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
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		for _, mode := range []string{"", "READ", "WRITE"} {
			a, key := connect(t, s), newKey()
			other, late := lateBreaker(t, rdb)
			token := a.token(append([]string{key, "LEASE", "4000", "OWNER", "me"}, strings.Fields(mode)...)...)
			h := s.Holds.Find(lockOf(key), func(*hold.Hold) bool { return true })
			broken := late.start(other, key)
			eventually(t, soon, "it has ended by its Leash's count", func() bool {
				return h.State() == hold.Over || h.LeaseOver()
			})
			late.goOn()
			reply := receive(t, broken, soon)
			text := rdb.Get(t.Context(), script.TombstoneKey(key, token, a.carrier.Name)).Val()
			switch how := fmt.Sprintf("BREAK %s, %q, %d losses", reply, text, len(a.losses)); how {
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
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range []string{"", "READ", "WRITE"} {
			s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
			a := connect(t, s)
			var token int64
			for range 2 {
				token = a.token(append([]string{key, "OWNER", "me"}, strings.Fields(mode)...)...)
			}
			tombstone := script.TombstoneKey(key, token, a.carrier.Name)
			rdb.Set(t.Context(), tombstone, event.Lost+" "+renewal.ReasonSilence, time.Minute)
			want(t, connect(t, other).do("LOCK.RELEASE", key, "TOKEN", fmt.Sprint(token)), "-"+refusal.NotHeld)
			if exists(t, rdb, key) {
				t.Errorf("%s: the lock is still taken", mode)
			}
			want(t, rdb.Get(t.Context(), tombstone).Val(), event.Lost+" "+renewal.ReasonSilence)
		}
	})
}

// TestR30ForcedBreakIsFinal: BREAK has ended a hold without its Leash. AWAITLOSS does not wait for
// that Leash.
func TestR30ForcedBreakIsFinal(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *Service) { s.Events.Own = "nowhere" }
		tests := make(map[string]func(*testing.T))
		for _, mode := range []string{"", "READ", "WRITE"} {
			tests[mode] = func(t *testing.T) {
				s, other, third, key := leash(t, rdb, Config{}, withoutEvents),
					leash(t, rdb, Config{}, defaultBreakTimeout), leash(t, rdb, Config{}, slowRetries), newKey()
				a := connect(t, s)
				token := a.token(append([]string{key, "TTL", "600000"}, strings.Fields(mode)...)...)
				reply := connect(t, third).start("LOCK.AWAITLOSS", key, "TOKEN", fmt.Sprint(token), "BLOCK", "0")
				eventually(t, soon, "it listens", func() bool {
					return third.Events.LastMessage(lockMode(mode).Channel(key)) != 0
				})
				want(t, connect(t, other).do("LOCK.BREAK", key), ":2")
				if got := receive(t, reply, soon); !strings.Contains(got, renewal.ReasonBroken) {
					t.Errorf("%s: got %q", mode, got)
				}
				want(t, rdb.Get(t.Context(), script.TombstoneKey(key, token, a.carrier.Name)).Val(), event.Forced)
				s.RenewAll(t.Context())
				want(t, receive(t, a.losses, soon), key+" "+renewal.ReasonBroken)
			}
		}
		runParallel(t, tests)
	})
}
