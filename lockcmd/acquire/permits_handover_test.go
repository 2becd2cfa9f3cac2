package acquire_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/acquire"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// takesOne returns the permit that a waiter gets.
func takesOne(t *testing.T, reply <-chan string) string {
	t.Helper()
	return locktest.PermitOf(t, locktest.Receive(t, reply, 5*time.Second))
}

func TestR21PermitsAreHandedOver(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		key, a, b, c := locktest.Semaphore(t, s, 2), locktest.Connect(t, s), locktest.Connect(t, s),
			locktest.Connect(t, s)
		held := a.Permits(2, key, "COUNT", "2")
		first := b.StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		two := c.StartInQueue(s, 2, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "COUNT", "2", "BLOCK", "0")
		waitersTried(t, s, key)
		before := s.Stats().Handovers
		locktest.Want(t, a.Do("SEM.RELEASE", key, held[0]), ":1")
		p := takesOne(t, first)
		a.WantSemaphoreInfo(key, 2, 0, 2)
		waitersTried(t, s, key)
		locktest.Want(t, a.Do("SEM.RELEASE", key, held[1]), ":1") // one is too few for the second waiter
		a.WantSemaphoreInfo(key, 2, 1, 1)
		waitersTried(t, s, key)
		locktest.Want(t, b.Do("SEM.RELEASE", key, p), ":1")
		locktest.WantPrefix(t, locktest.Receive(t, two, 5*time.Second), "*2")
		a.WantSemaphoreInfo(key, 2, 0, 2)
		if n := s.Stats().Handovers - before; n != 2 {
			t.Errorf("got %d hand-overs, want 2", n)
		}
		c.Carrier.End(lockcmd.Release)
		a.WantSemaphoreInfo(key, 2, 2, 0)
		if n := locktest.Records(rdb, key); n != 0 || len(a.Losses)+len(b.Losses) != 0 {
			t.Errorf("%d records are left", n)
		}
	})
}

// waitersTried waits until the first waiter waits for a message. A waiter that was the first when
// it came has then asked Redis after its subscription.
func waitersTried(t *testing.T, s *lockcmd.Service, key string) {
	t.Helper()
	locktest.Eventually(t, 5*time.Second, "the first waiter has tried", func() bool {
		return s.Waits.Rests(locktest.PermitsOf(key))
	})
}

// TestR21NoPermitIsHandedOverBeyondTheTotal: The total was lowered, so more permits are out than
// there are.
func TestR21NoPermitIsHandedOverBeyondTheTotal(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		key, a, b := locktest.Semaphore(t, s, 2), locktest.Connect(t, s), locktest.Connect(t, s)
		held := a.Permits(2, key, "COUNT", "2")
		reply := b.StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		waitersTried(t, s, key)
		locktest.Want(t, a.Do("SEM.RESIZE", key, "1"), ":-1")
		locktest.Want(t, a.Do("SEM.RELEASE", key, held[0]), ":1")
		a.WantSemaphoreInfo(key, 1, 0, 1)
		if len(reply) != 0 {
			t.Fatal("a permit too many was granted")
		}
		locktest.Want(t, a.Do("SEM.RELEASE", key, held[1]), ":1")
		takesOne(t, reply)
		a.WantSemaphoreInfo(key, 1, 0, 1)
	})
}

// TestR7PermitHandoverActsOnce: The script is sent again, before and after the waiter has given its
// permit back, and for a waiter that got its permit by an attempt of its own.
func TestR7PermitHandoverActsOnce(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		key, a, b := locktest.Semaphore(t, s, 2), locktest.Connect(t, s), locktest.Connect(t, s)
		var all []*hold.Hold
		for _, p := range a.Permits(2, key, "COUNT", "2", "LEASE", "60000") {
			all = append(all, s.Holds.Find(locktest.LockOf(key), hold.PermitSelector(p).Means))
		}
		next := &script.PermitRequest{
			Lock: locktest.LockOf(key), Permits: []string{strings.Repeat("ab", acquire.PermitSize)}, FirstToken: 1,
			Turn: s.Waits.Entry(script.Permit), TurnEvent: wait.TurnEvent(locktest.LockOf(key), script.Permit),
			Grant: script.GrantTerms{
				Carrier: b.Carrier.Name, Request: b.Carrier.Requests.Add(1), TTL: time.Minute,
				Options: script.Terms{}.OptionLetters(), Client: b.Carrier.Client().Name,
			},
		}
		ask := func(h *hold.Hold, answer string) {
			t.Helper()
			r, _, err := s.Redis.HandOverPermit(h.Owner(), h.Ref(), next, s.Redis.Deadline())
			got := fmt.Sprint(r.Answer, r.Granted, r.Others, r.Available)
			if err != nil || got != answer {
				t.Errorf("got %s, %v, want %s", got, err, answer)
			}
		}
		ask(all[0], "1 true 0 0")
		ask(all[0], "1 true 0 0") // done before
		a.WantSemaphoreInfo(key, 2, 0, 2)
		ask(all[1], "1 false 0 0") // the waiter has its permit
		a.WantSemaphoreInfo(key, 2, 1, 1)
		s.Redis.UndoPermits(locktest.LockOf(key), b.Carrier.Name, next.Grant.Request, 0, next.Permits)
		ask(all[0], "-1 false 0 0")
		ask(all[1], "-1 false 0 0")
		a.WantSemaphoreInfo(key, 2, 2, 0)
	})
}

// TestR7LostReplyOfAPermitHandover: The reply of a hand-over is lost, or its request.
func TestR7LostReplyOfAPermitHandover(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		s, straight, p := locktest.StartFaulty(t, lockcmd.Config{}, locktest.SlowRetries)
		key, a, b := locktest.Semaphore(t, straight, 1), locktest.Connect(t, s), locktest.Connect(t, s)
		old := a.Permit(key)
		reply := b.StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		waitersTried(t, s, key)
		arm := p.DropAfter
		if before {
			arm = p.DropBefore
		}
		fault := arm(locktest.Running(script.PermitHandoverScript, key))
		locktest.Want(t, a.Do("SEM.RELEASE", key, old), ":1")
		if got := takesOne(t, reply); got == old || fault.Count() != 1 {
			t.Errorf("got permit %s after %s, %d faults", got, old, fault.Count())
		}
		a.WantSemaphoreInfo(key, 1, 0, 1)
		locktest.Want(t, b.Do("SEM.RELEASE", key), ":1")
		a.WantSemaphoreInfo(key, 1, 1, 0)
	}
}

// TestR26PermitHandoverToAWaiterThatLeaves: BLOCK ends while the hand-over has no answer. What it
// grants is given back.
func TestR26PermitHandoverToAWaiterThatLeaves(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: time.Minute}, locktest.SlowRetries)
	key, a, b := locktest.Semaphore(t, straight, 1), locktest.Connect(t, s), locktest.Connect(t, s)
	a.Permit(key)
	reply := b.StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "1000")
	waitersTried(t, s, key)
	late := p.HoldBefore(locktest.Running(script.PermitHandoverScript, key), faultproxy.Always())
	released := a.Start("SEM.RELEASE", key)
	locktest.Want(t, locktest.Receive(t, reply, 5*time.Second), "$-1")
	late.Disarm()
	late.Release()
	locktest.Want(t, locktest.Receive(t, released, 5*time.Second), ":1")
	other := locktest.Connect(t, straight)
	locktest.Eventually(t, 2*time.Second, "the grant is given back", func() bool {
		_, available, held, _ := other.SemaphoreInfo(key)
		return available == 1 && held == 0
	})
	if s.Stats().Holds != 0 {
		t.Error("somebody has a hold")
	}
}

func TestR19PermitOfADisconnectedWaiterIsNeverGranted(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		key, observer := locktest.Semaphore(t, s, 1), locktest.Connect(t, s)
		for i := range 50 { // the disconnect and the hand-over meet in every order
			a, b := locktest.Connect(t, s), locktest.Connect(t, s)
			a.Permit(key)
			reply := b.StartInQueue(s, 1, locktest.PermitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
			released := a.Start("SEM.RELEASE", key)
			if i%3 == 0 {
				<-time.After(time.Duration(i) * 20 * time.Microsecond)
			}
			b.Gone()
			b.Carrier.End(lockcmd.Release)
			locktest.Want(t, locktest.Receive(t, released, 5*time.Second), ":1")
			locktest.Receive(t, reply, 5*time.Second)
			locktest.Eventually(t, 2*time.Second, "nothing is left", func() bool {
				_, available, held, waiters := observer.SemaphoreInfo(key)
				return available == 1 && held == 0 && waiters == 0 && s.Stats().Holds == 0 && s.Stats().Waiters == 0
			})
		}
	})
}
