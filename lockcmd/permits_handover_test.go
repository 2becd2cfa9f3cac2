package lockcmd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/acquire"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// takesOne returns the permit that a waiter gets.
func takesOne(t *testing.T, reply <-chan string) string {
	t.Helper()
	return permitOf(t, receive(t, reply, 5*time.Second))
}

func TestR21PermitsAreHandedOver(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, slowRetries)
		key, a, b, c := semaphore(t, s, 2), connect(t, s), connect(t, s), connect(t, s)
		held := a.permits(2, key, "COUNT", "2")
		first := b.startInQueue(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		two := c.startInQueue(s, 2, permitsOf(key), "SEM.ACQUIRE", key, "COUNT", "2", "BLOCK", "0")
		waitersTried(t, s, key)
		before := s.Stats().Handovers
		want(t, a.do("SEM.RELEASE", key, held[0]), ":1")
		p := takesOne(t, first)
		a.wantSemaphoreInfo(key, 2, 0, 2)
		waitersTried(t, s, key)
		want(t, a.do("SEM.RELEASE", key, held[1]), ":1") // one is too few for the second waiter
		a.wantSemaphoreInfo(key, 2, 1, 1)
		waitersTried(t, s, key)
		want(t, b.do("SEM.RELEASE", key, p), ":1")
		wantPrefix(t, receive(t, two, 5*time.Second), "*2")
		a.wantSemaphoreInfo(key, 2, 0, 2)
		if n := s.Stats().Handovers - before; n != 2 {
			t.Errorf("got %d hand-overs, want 2", n)
		}
		c.carrier.End(Release)
		a.wantSemaphoreInfo(key, 2, 2, 0)
		if n := records(rdb, key); n != 0 || len(a.losses)+len(b.losses) != 0 {
			t.Errorf("%d records are left", n)
		}
	})
}

// waitersTried waits until the first waiter waits for a message. A waiter that was the first when
// it came has then asked Redis after its subscription.
func waitersTried(t *testing.T, s *Service, key string) {
	t.Helper()
	eventually(t, 5*time.Second, "the first waiter has tried", func() bool {
		return s.Waits.Rests(permitsOf(key))
	})
}

// TestR21NoPermitIsHandedOverBeyondTheTotal: The total was lowered, so more permits are out than
// there are.
func TestR21NoPermitIsHandedOverBeyondTheTotal(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, slowRetries)
		key, a, b := semaphore(t, s, 2), connect(t, s), connect(t, s)
		held := a.permits(2, key, "COUNT", "2")
		reply := b.startInQueue(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		waitersTried(t, s, key)
		want(t, a.do("SEM.RESIZE", key, "1"), ":-1")
		want(t, a.do("SEM.RELEASE", key, held[0]), ":1")
		a.wantSemaphoreInfo(key, 1, 0, 1)
		if len(reply) != 0 {
			t.Fatal("a permit too many was granted")
		}
		want(t, a.do("SEM.RELEASE", key, held[1]), ":1")
		takesOne(t, reply)
		a.wantSemaphoreInfo(key, 1, 0, 1)
	})
}

// TestR7PermitHandoverActsOnce: The script is sent again, before and after the waiter has given its
// permit back, and for a waiter that got its permit by an attempt of its own.
func TestR7PermitHandoverActsOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, a, b := semaphore(t, s, 2), connect(t, s), connect(t, s)
		var all []*hold.Hold
		for _, p := range a.permits(2, key, "COUNT", "2", "LEASE", "60000") {
			all = append(all, s.Holds.Find(lockOf(key), hold.PermitSelector(p).Means))
		}
		next := &script.PermitRequest{
			Lock: lockOf(key), Permits: []string{strings.Repeat("ab", acquire.PermitSize)}, FirstToken: 1,
			Turn: s.Waits.Entry(script.Permit), TurnEvent: wait.TurnEvent(lockOf(key), script.Permit),
			Grant: script.GrantTerms{
				Carrier: b.carrier.Name, Request: b.carrier.Requests.Add(1), TTL: time.Minute,
				Options: script.Terms{}.OptionLetters(), Client: b.carrier.Client().Name,
			},
		}
		ask := func(h *hold.Hold, answer string) {
			t.Helper()
			r, _, err := s.Redis.HandOverPermit(h.Owner(), h.Ref(), next, s.deadline())
			got := fmt.Sprint(r.Answer, r.Granted, r.Others, r.Available)
			if err != nil || got != answer {
				t.Errorf("got %s, %v, want %s", got, err, answer)
			}
		}
		ask(all[0], "1 true 0 0")
		ask(all[0], "1 true 0 0") // done before
		a.wantSemaphoreInfo(key, 2, 0, 2)
		ask(all[1], "1 false 0 0") // the waiter has its permit
		a.wantSemaphoreInfo(key, 2, 1, 1)
		s.Redis.UndoPermits(lockOf(key), b.carrier.Name, next.Grant.Request, 0, next.Permits)
		ask(all[0], "-1 false 0 0")
		ask(all[1], "-1 false 0 0")
		a.wantSemaphoreInfo(key, 2, 2, 0)
	})
}

// TestR7LostReplyOfAPermitHandover: The reply of a hand-over is lost, or its request.
func TestR7LostReplyOfAPermitHandover(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		s, straight, p := faulty(t, Config{}, slowRetries)
		key, a, b := semaphore(t, straight, 1), connect(t, s), connect(t, s)
		old := a.permit(key)
		reply := b.startInQueue(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
		waitersTried(t, s, key)
		arm := p.DropAfter
		if before {
			arm = p.DropBefore
		}
		fault := arm(running(script.PermitHandoverScript, key))
		want(t, a.do("SEM.RELEASE", key, old), ":1")
		if got := takesOne(t, reply); got == old || fault.Count() != 1 {
			t.Errorf("got permit %s after %s, %d faults", got, old, fault.Count())
		}
		a.wantSemaphoreInfo(key, 1, 0, 1)
		want(t, b.do("SEM.RELEASE", key), ":1")
		a.wantSemaphoreInfo(key, 1, 1, 0)
	}
}

// TestR26PermitHandoverToAWaiterThatLeaves: BLOCK ends while the hand-over has no answer. What it
// grants is given back.
func TestR26PermitHandoverToAWaiterThatLeaves(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: time.Minute}, slowRetries)
	key, a, b := semaphore(t, straight, 1), connect(t, s), connect(t, s)
	a.permit(key)
	reply := b.startInQueue(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "1000")
	waitersTried(t, s, key)
	late := p.HoldBefore(running(script.PermitHandoverScript, key), faultproxy.Always())
	released := a.start("SEM.RELEASE", key)
	want(t, receive(t, reply, 5*time.Second), "$-1")
	late.Disarm()
	late.Release()
	want(t, receive(t, released, 5*time.Second), ":1")
	other := connect(t, straight)
	eventually(t, 2*time.Second, "the grant is given back", func() bool {
		_, available, held, _ := other.semaphoreInfo(key)
		return available == 1 && held == 0
	})
	if s.Stats().Holds != 0 {
		t.Error("somebody has a hold")
	}
}

func TestR19PermitOfADisconnectedWaiterIsNeverGranted(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		key, observer := semaphore(t, s, 1), connect(t, s)
		for i := range 50 { // the disconnect and the hand-over meet in every order
			a, b := connect(t, s), connect(t, s)
			a.permit(key)
			reply := b.startInQueue(s, 1, permitsOf(key), "SEM.ACQUIRE", key, "BLOCK", "0")
			released := a.start("SEM.RELEASE", key)
			if i%3 == 0 {
				<-time.After(time.Duration(i) * 20 * time.Microsecond)
			}
			b.gone()
			b.carrier.End(Release)
			want(t, receive(t, released, 5*time.Second), ":1")
			receive(t, reply, 5*time.Second)
			eventually(t, 2*time.Second, "nothing is left", func() bool {
				_, available, held, waiters := observer.semaphoreInfo(key)
				return available == 1 && held == 0 && waiters == 0 && s.Stats().Holds == 0 && s.Stats().Waiters == 0
			})
		}
	})
}
