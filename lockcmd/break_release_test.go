package lockcmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
			if err := b.confirm(); err != nil || b.answer() != wasFree {
				t.Errorf("%s: BREAK says %d, %v, want %d", mode, b.answer(), err, wasFree)
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
		if err := b.confirm(); err != nil || b.answer() != wasForced {
			t.Errorf("BREAK says %d, %v, want %d", b.answer(), err, wasForced)
		}
	})
}

// TestR30BreakAndReleaseAtOnce: one of them has ended the hold, and who waits for its loss is told by which.
func TestR30BreakAndReleaseAtOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
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
