package lockcmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
	"leash/renewal"
)

// breakInSteps is a BREAK that has seen who holds the lock, and has done nothing about it yet.
func breakInSteps(t *testing.T, s *Service, key string) (b *breaking, seen look) {
	t.Helper()
	b = s.newBreaking(lockID{0, key}, s.deadline())
	seen, err := s.inspect(b.lock, b.until)
	if err != nil || len(seen.holds) != 1 {
		t.Fatalf("the hold is not seen: %v, %v", seen, err)
	}
	b.meant[seen.holds[0].record.token] = true
	b.patient = time.Now().Add(s.confirm)
	return b, seen
}

// TestR30BreakBehindARelease: the mark of a BREAK that saw the hold, and lays it when its owner has released it, is no end of it.
func TestR30BreakBehindARelease(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range []string{"", "READ", "WRITE", "FAIR"} {
			s, other, third, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
			a := connect(t, s)
			token := a.token(append([]string{key}, strings.Fields(mode)...)...)
			b, seen := breakInSteps(t, other, key)
			w := &lossWait{service: third, lock: b.lock, options: options{token: token}, seen: &seen.holds[0]}
			want(t, a.do("LOCK.RELEASE", key), ":1")
			if over, err := b.step(seen); over || err != nil || len(b.asked) != 1 {
				t.Fatalf("%s: it is not marked: %v, %v", mode, over, err)
			}
			if b.confirm(); b.answer() != wasFree {
				t.Errorf("%s: BREAK says %d, want %d", mode, b.answer(), wasFree)
			}
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			if reason, err := w.run(ctx); reason != "" || err != nil || ctx.Err() != nil {
				t.Errorf("%s: AWAITLOSS says %q, %v, %v", mode, reason, err, ctx.Err())
			}
			cancel()
		}
	})
}

// TestR30BreakThatNobodyAnswers: the Leash that carried the hold says nothing of its end, so nobody knows what its holder knows.
func TestR30BreakThatNobodyAnswers(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		deaf := func(s *Service) { s.ears.news = "nowhere" }
		s, other, key := leash(t, rdb, Config{}, deaf), leash(t, rdb, Config{}, brief), newKey()
		a := connect(t, s)
		a.token(key)
		b, seen := breakInSteps(t, other, key)
		if over, err := b.step(seen); over || err != nil {
			t.Fatal(over, err)
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if b.confirm(); b.answer() != wasForced {
			t.Errorf("BREAK says %d, want %d", b.answer(), wasForced)
		}
	})
}

// TestR30BreakAndReleaseAtOnce: one of them has ended the hold, and who waits for its loss is told by which.
func TestR30BreakAndReleaseAtOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, third := leash(t, rdb, Config{}), leash(t, rdb, Config{}), leash(t, rdb, Config{})
		a, b, c := connect(t, s), connect(t, other), connect(t, third)
		first := 0 // releases
		for i := range 36 {
			key := newKey()
			token := a.token(key, "ONLOSS", "ERROR")
			w := &lossWait{service: third, lock: c.carrier.id(key), options: options{token: token}}
			if _, over, err := w.look(); over || err != nil || w.seen == nil {
				t.Fatalf("AWAITLOSS does not see the hold: %v", err)
			}
			broken := b.start("LOCK.BREAK", key)
			<-time.After(time.Duration(i%12) * 100 * time.Microsecond) // so that either is first at times
			released := a.do("LOCK.RELEASE", key)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			reason, err := w.run(ctx)
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

// TestR30BreakOfWhatIsBeingEnded: the holder has been told of a loss, but its lock waits to be ended. Whoever ends it then, a second BREAK or its
// owner through another Leash, does not make the loss undone.
func TestR30BreakOfWhatIsBeingEnded(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, mode := range []string{"", "READ", "WRITE"} {
			s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
			a := connect(t, s)
			token := a.token(append([]string{key}, strings.Fields(mode)...)...)
			h := s.find(lockID{0, key}, func(*hold) bool { return true })
			if !h.open(s.deadline()) { // so that it cannot be ended
				t.Fatal("its gate is taken")
			}
			far, seen := breakInSteps(t, other, key)
			near, _ := breakInSteps(t, s, key)
			if over, err := far.step(seen); over || err != nil {
				t.Fatal(over, err)
			}
			want(t, receive(t, a.losses, soon), key+" "+renewal.ReasonBroken)
			stone := tombstoneKey(key, token, a.carrier.name)
			eventually(t, soon, "it is written down", func() bool { return rdb.Get(t.Context(), stone).Val() == "lost broken" })
			if how, err := s.tombstone(h, s.deadline()); how != renewal.Broken || err != nil {
				t.Errorf("%s: the Leash that carries it reads %v, %v", mode, how, err)
			}
			if over, err := near.step(seen); over || err != nil || near.answer() != wasTold {
				t.Errorf("%s: a second BREAK says %d, %v, want %d", mode, near.answer(), err, wasTold)
			}
			want(t, connect(t, other).do("LOCK.RELEASE", key, "TOKEN", fmt.Sprint(token)), ":1")
			if far.confirm(); far.answer() != wasTold {
				t.Errorf("%s: BREAK says %d, want %d", mode, far.answer(), wasTold)
			}
			want(t, rdb.Get(t.Context(), stone).Val(), "lost broken")
			h.close()
			eventually(t, soon, "it is forgotten", func() bool { return a.carrier.Holds() == 0 })
		}
	})
}

// TestR30BreakWhileRedisIsSilent: a BREAK whose holds are over is answered though nobody can say how they ended.
func TestR30BreakWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := dialServer(t, server.Addr)
	s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}, brief), newKey()
	a := connect(t, s)
	a.token(key)
	b, seen := breakInSteps(t, other, key)
	b.meant = nil // over
	b.asked[seen.holds[0].record.token] = tombstoneKey(key, 1, "x")
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Resume() })
	b.confirm()
	if b.answer() != wasForced {
		t.Errorf("BREAK says %d, want %d", b.answer(), wasForced)
	}
	if late := time.Since(b.patient); late > 5*time.Second {
		t.Errorf("BREAK waits for Redis %v longer than for a Leash", late)
	}
}
