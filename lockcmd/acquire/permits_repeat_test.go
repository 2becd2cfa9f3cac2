package acquire_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR7PermitsOfARepeatedRequest(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		key, a, b, c := locktest.Semaphore(t, s, 10), locktest.Connect(t, s), locktest.Connect(t, s),
			locktest.Connect(t, other)
		first := a.Permits(3, key, "COUNT", "3", "ID", "r1")
		if again := a.Permits(3, key, "COUNT", "3", "ID", "r1"); strings.Join(again, " ") != strings.Join(first, " ") {
			t.Fatalf("got %v when repeated, want %v", again, first)
		}
		a.WantSemaphoreInfo(key, 10, 7, 3)
		if p := a.Permit(key, "ID", "r2"); p == first[0] {
			t.Error("two requests got one permit")
		}
		for i, who := range []*locktest.Client{b, c} { // within one Leash, then to another one
			if again := who.Permits(3, key, "COUNT", "3", "ID", "r1", "BLOCK", "0"); strings.Join(again,
				" ") != strings.Join(first, " ") {
				t.Fatalf("got %v when repeated elsewhere, want %v", again, first)
			}
			if who.Carrier.Holds() != 3 {
				t.Fatalf("got %d holds, want 3", who.Carrier.Holds())
			}
			locktest.Eventually(t, 3*time.Second, "the old carrier forgets", func() bool {
				return []*locktest.Client{a, b}[i].Carrier.Holds() == 1-i
			})
		}
		if len(a.Losses)+len(b.Losses)+len(a.Moved)+len(b.Moved) != 0 {
			t.Error("a moved permit was reported as a loss")
		}
		b.Carrier.End(lockcmd.Release) // R11: its permits have moved, so nothing is released
		locktest.Want(t, a.Do("SEM.RELEASE", key), ":1")
		c.WantSemaphoreInfo(key, 10, 7, 3)
		locktest.Want(t, c.Do("SEM.RELEASE", key, first[1]), ":1")
		c.Permits(3, key, "COUNT", "3", "ID", "r1") // the missing permits are acquired again
		c.WantSemaphoreInfo(key, 10, 7, 3)
		if n := c.Carrier.Holds(); n != 3 {
			t.Errorf("got %d holds, want 3", n)
		}
		c.Carrier.End(lockcmd.Release)
		a.WantSemaphoreInfo(key, 10, 10, 0)
	})
}

// TestR26RepeatedRequestFindsALoss: A permit was taken back in Redis without Leash. The repeated
// request reports the loss and does not acquire it again silently.
func TestR26RepeatedRequestFindsALoss(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		key, a := locktest.Semaphore(t, s, 5), locktest.Connect(t, s)
		two := a.Permits(2, key, "COUNT", "2", "ID", "r")
		raw, _ := hex.DecodeString(two[1])
		rdb.ZRem(t.Context(), script.PermitsKey(key), string(raw))
		rdb.Incr(t.Context(), key)
		locktest.Want(t, a.Do("SEM.ACQUIRE", key, "COUNT", "2", "ID", "r"), "-"+locktest.MsgLost(key, "gone"))
		locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" gone")
		locktest.Eventually(t, 5*time.Second, "what was acquired again is released", func() bool {
			_, available, held, _ := a.SemaphoreInfo(key)
			return available == 4 && held == 1
		})
		a.Carrier.End(lockcmd.Release)
		locktest.Connect(t, s).WantSemaphoreInfo(key, 5, 5, 0)
	})
}

// TestR26ReleaseThroughAnotherLeashIsNoLoss: A permit was released through another Leash. That is
// no loss, even if the event has not arrived yet.
func TestR26ReleaseThroughAnotherLeashIsNoLoss(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *lockcmd.Service) { s.Events.Own = "nowhere" }
		s, other := locktest.Start(t, rdb, lockcmd.Config{}, withoutEvents), locktest.Start(t, rdb, lockcmd.Config{})
		key, a, b := locktest.Semaphore(t, s, 5), locktest.Connect(t, s), locktest.Connect(t, other)
		p := a.Permit(key, "ID", "r")
		locktest.Want(t, b.Do("SEM.RELEASE", key, p), ":1")
		locktest.Want(t, p, a.Permit(key, "ID", "r"))
		a.WantSemaphoreInfo(key, 5, 4, 1)
		locktest.Want(t, b.Do("SEM.RELEASE", key, p), ":1")
		locktest.Want(t, p, b.Permit(key, "ID", "r"))
		locktest.Want(t, p, a.Permit(key, "ID", "r")) // moved back to the first connection
		if a.Carrier.Holds() != 1 || len(a.Losses) != 0 {
			t.Errorf("got %d holds, want 1 and no loss", a.Carrier.Holds())
		}
		locktest.Want(t, a.Do("SEM.RELEASE", key), ":1")
		a.WantSemaphoreInfo(key, 5, 5, 0)
	})
}

func TestR7LostRepliesOfPermits(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	rdb := locktest.RedisOf(straight)
	for _, before := range []bool{false, true} {
		key, a := locktest.Semaphore(t, straight, 5), locktest.Connect(t, s)
		locktest.Want(t, a.Do("SEM.RELEASE", key, a.Permit(key)), ":1") // Redis knows the scripts
		arm := p.DropAfter
		if before {
			arm = p.DropBefore
		}
		fault := arm(locktest.Running(script.PermitAcquireScript, key))
		got := a.Permits(2, key, "COUNT", "2")
		if fault.Count() != 1 {
			t.Fatal("no reply was lost")
		}
		a.WantSemaphoreInfo(key, 5, 3, 2)
		fault = arm(locktest.Running(script.PermitReleaseScript, key))
		locktest.Want(t, a.Do("SEM.RELEASE", key, got[0]), ":1")
		if fault.Count() != 1 {
			t.Fatal("no reply was lost")
		}
		a.WantSemaphoreInfo(key, 5, 4, 1)
		foreign := locktest.Connect(t, straight).Permit(key)
		fault = arm(locktest.Running(script.PermitRevokeScript, key))
		locktest.Want(t, a.Do("SEM.RELEASE", key, foreign), ":1")
		if fault.Count() != 1 {
			t.Fatal("no reply was lost")
		}
		locktest.Want(t, rdb.Get(t.Context(), key).Val(), "4")
	}
}

func TestR26UnknownPermitsAreUndone(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout,
		WatchdogTimeout: 12 * time.Second})
	key, a := locktest.Semaphore(t, straight, 5), locktest.Connect(t, s)
	a.Permit(key, "ID", "kept")
	p.Freeze()
	locktest.Want(t, a.Do("SEM.ACQUIRE", key, "COUNT", "2"), "-"+refusal.Unanswered)
	p.Thaw()
	// a delayed copy arrives between the first undo and the second
	<-time.After(2500 * time.Millisecond)
	locktest.Eventually(t, 10*time.Second, "it is undone", func() bool {
		return locktest.Get(t, straight, key) == "4" && s.Stats().Undone == 1
	})
	if a.Carrier.Holds() != 1 || len(a.Losses) != 0 {
		t.Error("what was held was touched")
	}
}

// TestR26RepeatedIDWaitsForTheUndo: The undo of the first request is in progress. A request with
// the same ID waits for it. Otherwise it would get the permit that is about to be released.
func TestR26RepeatedIDWaitsForTheUndo(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	key, a := locktest.Semaphore(t, straight, 1), locktest.Connect(t, s)
	a.Permit(key) // Redis knows the scripts now
	locktest.Want(t, a.Do("SEM.RELEASE", key), ":1")
	undo := p.HoldBefore(locktest.Running(script.ByName("permit_undo"), key), faultproxy.Always())
	unheard := p.HoldAfter(locktest.Running(script.PermitAcquireScript, key), faultproxy.Always())
	locktest.Want(t, a.Do("SEM.ACQUIRE", key, "ID", "r"), "-"+refusal.Unanswered)
	unheard.Disarm()
	<-undo.Triggered()
	locktest.Want(t, a.Do("SEM.ACQUIRE", key, "ID", "r"), "-"+refusal.NotAccepted)
	undo.Disarm()
	undo.Release()
	var reply string
	locktest.Eventually(t, locktest.Soon, "it has a permit", func() bool {
		reply = a.Do("SEM.ACQUIRE", key, "ID", "r")
		return reply[0] == '$'
	})
	b := locktest.Connect(t, straight)
	for range 20 { // the delayed requests arrive
		locktest.Want(t, b.Do("SEM.ACQUIRE", key), "$-1")
		time.Sleep(10 * time.Millisecond)
	}
	locktest.Want(t, a.Do("SEM.RELEASE", key), ":1")
	b.Permit(key)
}
