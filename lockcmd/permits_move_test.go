package lockcmd

import (
	"fmt"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// These tests repeat an ACQUIRE of permits with its ID on another connection.

// TestR26UnansweredMoveOfPermitsIsUndone: The repeated ACQUIRE gets no answer. It is undone,
// whatever it has moved or will move.
func TestR26UnansweredMoveOfPermitsIsUndone(t *testing.T) {
	t.Parallel() // mostly waiting
	tests := make(map[string]func(*testing.T))
	for _, ran := range []bool{true, false} {
		for _, away := range []bool{false, true} {
			tests[fmt.Sprint(ran, away)] = func(t *testing.T) {
				s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
				from := s
				if away {
					from = straight
				}
				a, b, key := connect(t, from), connect(t, s), newKey()
				want(t, b.do("SEM.INIT", key, "3"), ":1")
				acquire := []string{"SEM.ACQUIRE", key, "ID", "1", "COUNT", "2"}
				permits := a.do(acquire...)
				fault := drop(p, ran)(running(script.PermitMoveScript, key), faultproxy.Always())
				want(t, b.do(acquire...), "-"+refusal.Unanswered)
				want(t, b.do(acquire...), "-"+refusal.Refused)
				fault.Disarm()
				eventually(t, 3*time.Second, "it is undone", func() bool {
					return straight.Redis.Redis.ZCard(t.Context(), script.PermitsKey(key)).Val() <= 1 &&
						b.carrier.Holds() == 0
				})
				want(t, b.askUntilAnswered(acquire...), permits)
				eventually(t, 3*time.Second, "they have moved", func() bool {
					return a.carrier.Holds() == 0 && b.carrier.Holds() == 2
				})
				want(t, straight.Redis.Redis.Get(t.Context(), key).Val(), "1")
				b.carrier.End(Release)
				want(t, straight.Redis.Redis.Get(t.Context(), key).Val(), "3")
				if len(a.losses)+len(b.losses)+len(a.moved)+len(b.moved) != 0 {
					t.Error("reported as a loss")
				}
			}
		}
	}
	runParallel(t, tests)
}

// TestR7PermitsOfAFailedMoveAreReleased: The repeated ACQUIRE cannot get all of its permits. It
// keeps none.
func TestR7PermitsOfAFailedMoveAreReleased(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a, b, c, key := connect(t, s), connect(t, s), connect(t, s), newKey()
	want(t, a.do("SEM.INIT", key, "2"), ":1")
	acquire := []string{"SEM.ACQUIRE", key, "ID", "1", "COUNT", "2"}
	permits := a.permits(2, acquire[1:]...)
	want(t, a.do("SEM.RELEASE", key, permits[1]), ":1")
	wantPrefix(t, c.do("SEM.ACQUIRE", key), "$32")
	for range 3 {
		want(t, b.do(acquire...), "$-1")
	}
	eventually(t, 3*time.Second, "the other permit is released", func() bool {
		return s.Redis.Redis.Get(t.Context(), key).Val() == "1" && a.carrier.Holds()+b.carrier.Holds() == 0
	})
	want(t, c.do("SEM.RELEASE", key), ":1")
	wantPrefix(t, b.do(acquire...), "*2")
}
