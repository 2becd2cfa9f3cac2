package lockcmd

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR7PermitsOfARepeatedRequest(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		key, a, b, c := semaphore(t, s, 10), connect(t, s), connect(t, s), connect(t, other)
		first := a.permits(3, key, "COUNT", "3", "ID", "r1")
		if again := a.permits(3, key, "COUNT", "3", "ID", "r1"); strings.Join(again, " ") != strings.Join(first, " ") {
			t.Fatalf("got %v when repeated, want %v", again, first)
		}
		a.wantSemaphoreInfo(key, 10, 7, 3)
		if p := a.permit(key, "ID", "r2"); p == first[0] {
			t.Error("two requests got one permit")
		}
		for i, who := range []*conn{b, c} { // within one Leash, then to another one
			if again := who.permits(3, key, "COUNT", "3", "ID", "r1", "BLOCK", "0"); strings.Join(again,
				" ") != strings.Join(first, " ") {
				t.Fatalf("got %v when repeated elsewhere, want %v", again, first)
			}
			if who.carrier.Holds() != 3 {
				t.Fatalf("got %d holds, want 3", who.carrier.Holds())
			}
			eventually(t, 3*time.Second, "the old carrier forgets", func() bool {
				return []*conn{a, b}[i].carrier.Holds() == 1-i
			})
		}
		if len(a.losses)+len(b.losses)+len(a.moved)+len(b.moved) != 0 {
			t.Error("a moved permit was reported as a loss")
		}
		b.carrier.End(Release) // R11: its permits have moved, so nothing is released
		want(t, a.do("SEM.RELEASE", key), ":1")
		c.wantSemaphoreInfo(key, 10, 7, 3)
		want(t, c.do("SEM.RELEASE", key, first[1]), ":1")
		c.permits(3, key, "COUNT", "3", "ID", "r1") // the missing permits are acquired again
		c.wantSemaphoreInfo(key, 10, 7, 3)
		if n := c.carrier.Holds(); n != 3 {
			t.Errorf("got %d holds, want 3", n)
		}
		c.carrier.End(Release)
		a.wantSemaphoreInfo(key, 10, 10, 0)
	})
}

// TestR26RepeatedRequestFindsALoss: A permit was taken back in Redis without Leash. The repeated
// request reports the loss and does not acquire it again silently.
func TestR26RepeatedRequestFindsALoss(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a := semaphore(t, s, 5), connect(t, s)
		two := a.permits(2, key, "COUNT", "2", "ID", "r")
		raw, _ := hex.DecodeString(two[1])
		rdb.ZRem(t.Context(), script.PermitsKey(key), string(raw))
		rdb.Incr(t.Context(), key)
		want(t, a.do("SEM.ACQUIRE", key, "COUNT", "2", "ID", "r"), "-"+msgLost(key, "gone"))
		want(t, receive(t, a.losses, time.Second), key+" gone")
		eventually(t, 5*time.Second, "what was acquired again is released", func() bool {
			_, available, held, _ := a.semaphoreInfo(key)
			return available == 4 && held == 1
		})
		a.carrier.End(Release)
		connect(t, s).wantSemaphoreInfo(key, 5, 5, 0)
	})
}

// TestR26ReleaseThroughAnotherLeashIsNoLoss: A permit was released through another Leash. That is
// no loss, even if the event has not arrived yet.
func TestR26ReleaseThroughAnotherLeashIsNoLoss(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *Service) { s.Events.Own = "nowhere" }
		s, other := leash(t, rdb, Config{}, withoutEvents), leash(t, rdb, Config{})
		key, a, b := semaphore(t, s, 5), connect(t, s), connect(t, other)
		p := a.permit(key, "ID", "r")
		want(t, b.do("SEM.RELEASE", key, p), ":1")
		want(t, p, a.permit(key, "ID", "r"))
		a.wantSemaphoreInfo(key, 5, 4, 1)
		want(t, b.do("SEM.RELEASE", key, p), ":1")
		want(t, p, b.permit(key, "ID", "r"))
		want(t, p, a.permit(key, "ID", "r")) // moved back to the first connection
		if a.carrier.Holds() != 1 || len(a.losses) != 0 {
			t.Errorf("got %d holds, want 1 and no loss", a.carrier.Holds())
		}
		want(t, a.do("SEM.RELEASE", key), ":1")
		a.wantSemaphoreInfo(key, 5, 5, 0)
	})
}

func TestR7LostRepliesOfPermits(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{})
	rdb := straight.Redis.Redis
	for _, before := range []bool{false, true} {
		key, a := semaphore(t, straight, 5), connect(t, s)
		want(t, a.do("SEM.RELEASE", key, a.permit(key)), ":1") // Redis knows the scripts
		arm := p.DropAfter
		if before {
			arm = p.DropBefore
		}
		fault := arm(running(script.PermitAcquireScript, key))
		got := a.permits(2, key, "COUNT", "2")
		if fault.Count() != 1 {
			t.Fatal("no reply was lost")
		}
		a.wantSemaphoreInfo(key, 5, 3, 2)
		fault = arm(running(script.PermitReleaseScript, key))
		want(t, a.do("SEM.RELEASE", key, got[0]), ":1")
		if fault.Count() != 1 {
			t.Fatal("no reply was lost")
		}
		a.wantSemaphoreInfo(key, 5, 4, 1)
		foreign := connect(t, straight).permit(key)
		fault = arm(running(script.PermitRevokeScript, key))
		want(t, a.do("SEM.RELEASE", key, foreign), ":1")
		if fault.Count() != 1 {
			t.Fatal("no reply was lost")
		}
		want(t, rdb.Get(t.Context(), key).Val(), "4")
	}
}

func TestR26UnknownPermitsAreUndone(t *testing.T) {
	t.Parallel()
	takesLong(t)
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout, WatchdogTimeout: 12 * time.Second})
	key, a := semaphore(t, straight, 5), connect(t, s)
	a.permit(key, "ID", "kept")
	p.Freeze()
	want(t, a.do("SEM.ACQUIRE", key, "COUNT", "2"), "-"+refusal.Unanswered)
	p.Thaw()
	// a delayed copy arrives between the first undo and the second
	<-time.After(2500 * time.Millisecond)
	eventually(t, 10*time.Second, "it is undone", func() bool {
		return rdbGet(t, straight, key) == "4" && s.Stats().Undone == 1
	})
	if a.carrier.Holds() != 1 || len(a.losses) != 0 {
		t.Error("what was held was touched")
	}
}

func rdbGet(t testing.TB, s *Service, key string) string {
	return s.Redis.Redis.Get(t.Context(), key).Val()
}

// TestR26RepeatedIDWaitsForTheUndo: The undo of the first request is in progress. A request with
// the same ID waits for it. Otherwise it would get the permit that is about to be released.
func TestR26RepeatedIDWaitsForTheUndo(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	key, a := semaphore(t, straight, 1), connect(t, s)
	a.permit(key) // Redis knows the scripts now
	want(t, a.do("SEM.RELEASE", key), ":1")
	undo := p.HoldBefore(running(script.ByName("permit_undo"), key), faultproxy.Always())
	unheard := p.HoldAfter(running(script.PermitAcquireScript, key), faultproxy.Always())
	want(t, a.do("SEM.ACQUIRE", key, "ID", "r"), "-"+refusal.Unanswered)
	unheard.Disarm()
	<-undo.Triggered()
	want(t, a.do("SEM.ACQUIRE", key, "ID", "r"), "-"+refusal.Refused)
	undo.Disarm()
	undo.Release()
	var reply string
	eventually(t, soon, "it has a permit", func() bool {
		reply = a.do("SEM.ACQUIRE", key, "ID", "r")
		return reply[0] == '$'
	})
	b := connect(t, straight)
	for range 20 { // the delayed requests arrive
		want(t, b.do("SEM.ACQUIRE", key), "$-1")
		time.Sleep(10 * time.Millisecond)
	}
	want(t, a.do("SEM.RELEASE", key), ":1")
	b.permit(key)
}
