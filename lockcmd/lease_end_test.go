package lockcmd

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/renewal"
)

// leaseIsOver is a connection with a lease that is over by our count, and a second long not by Redis's.
func leaseIsOver(t *testing.T, mode ...string) (s *Service, a *conn, key string) {
	s, _, p := faulty(t, Config{UpstreamTimeout: 4 * time.Second})
	key = newKey()
	a, _, _ = delayedLease(t, s, p, key, mode...)
	h := a.carrier.newest(lockID{0, key}, func(*hold) bool { return true })
	eventually(t, soon, "our count is over", h.leaseOver)
	return s, a, key
}

func TestALeaseThatIsOverIsNotEnteredAgain(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		for _, mode := range [][]string{nil, {"READ"}} {
			again := func() bool {
				a, key := connect(t, s), newKey()
				first := a.token(append([]string{key, "OWNER", "me", "LEASE", "1000"}, mode...)...)
				h := a.carrier.ownHold(key, options{})
				time.Sleep(800 * time.Millisecond)
				s.watchdog.Correct(&h.watch, time.Now(), time.Now())
				token := a.token(append([]string{key, "OWNER", "me", "LEASE", "20000"}, mode...)...)
				if token != first {
					a.ms(20000, "LOCK.TTL", key)
					want(t, a.do("LOCK.RELEASE", key), ":1") // it counts one acquire
				}
				want(t, strconv.Itoa(len(a.losses)), "0")
				return token == first
			}
			tries := 1
			// a look of the watchdog's came first, and Redis had it for a moment more
			for ; again(); tries++ {
				if tries == 5 {
					t.Fatalf("%v: a lease that is over was entered again", mode)
				}
			}
		}
	})
}

// TestALeaseExtendedAfterItsEndIsEnteredAgain though we have not heard of it: whoever extended it
// believes in it.
func TestALeaseExtendedAfterItsEndIsEnteredAgain(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}, func(s *Service) { s.subscriber.eventChannel = "nowhere" }), leash(t, rdb, Config{})
		for _, mode := range [][]string{nil, {"READ"}} {
			a, key := connect(t, s), newKey()
			first := a.token(append([]string{key, "OWNER", "me", "LEASE", "5000"}, mode...)...)
			h := a.carrier.ownHold(key, options{})
			want(t, connect(t, other).do("LOCK.EXTEND", key, "60000", "OWNER", "me"), ":60000")
			s.watchdog.Correct(&h.watch, time.Now(), time.Now())
			if token := a.token(append([]string{key, "OWNER", "me", "LEASE", "20000"}, mode...)...); token != first {
				t.Errorf("got token %d after %d", token, first)
			}
			a.ms(60000, "LOCK.TTL", key)
			want(t, a.do("LOCK.RELEASE", key), ":0")
			want(t, a.do("LOCK.RELEASE", key), ":1")
		}
	})
}

func TestALeaseThatIsOverIsReleased(t *testing.T) {
	t.Parallel()
	s, a, key := leaseIsOver(t)
	want(t, a.do("LOCK.RELEASE", key), ":1") // Redis had it
	want(t, a.do("LOCK.RELEASE", key), "-"+msgNotHeld)
	if n := s.Stats().Holds; n != 0 || len(a.losses) != 0 {
		t.Errorf("%d holds are left, %d losses were told", n, len(a.losses))
	}
}

// TestALeaseThatIsOverHidesNoOther of its connection's on that lock.
func TestALeaseThatIsOverHidesNoOther(t *testing.T) {
	t.Parallel()
	_, a, key := leaseIsOver(t, "READ")
	first := a.carrier.newest(lockID{0, key}, func(*hold) bool { return true })
	token := a.token(key, "READ", "LEASE", "60000")
	a.carrier.mu.Lock()
	a.carrier.removeHoldLocked(first) // as if it were the newer one
	a.carrier.addHoldLocked(first)
	a.carrier.mu.Unlock()
	if left, _ := strconv.Atoi(a.do("LOCK.TTL", key)[1:]); left < 50000 {
		t.Errorf("%d ms are left of the other", left)
	}
	if h := a.carrier.ownHold(key, options{}); h.token != token {
		t.Errorf("got the hold with token %d, want %d", h.token, token)
	}
}

// TestALeaseThatIsOverIsNoLoss whatever else would take it away.
func TestALeaseThatIsOverIsNoLoss(t *testing.T) {
	t.Parallel()
	_, a, key := leaseIsOver(t)
	h := a.carrier.newest(lockID{0, key}, func(*hold) bool { return true })
	if h.evict(reasonIdle) || len(a.losses) != 0 || a.carrier.Holds() != 0 {
		t.Errorf("%d losses were told, %d holds are left", len(a.losses), a.carrier.Holds())
	}
}

// TestR27ASpentLeaseIsNotOfTheQuorum: with one of three over, and one lost, there are too few.
func TestR27ALeaseThatIsOverIsNotOfTheQuorum(t *testing.T) {
	t.Parallel()
	s, _, p := faulty(t, Config{})
	a, key := connect(t, s), newKey()
	wantPrefix(t, a.do("LOCK.MACQUIRE", "3", key+"a", key+"b", key+"c", "QUORUM", "2", "LEASE", "60000"), "*3")
	mine := func(key string) *hold { return a.carrier.ownHold(key, options{}) }
	p.Freeze() // nobody says whether it is over
	s.watchdog.Correct(&mine(key+"a").watch, time.Now(), time.Now())
	eventually(t, soon, "it is over", mine(key+"a").leaseOver)
	mine(key + "b").Lost(renewal.ReasonGone)
	want(t, receive(t, a.losses, soon), key+"b gone")
	p.Thaw()
}

// TestAFreshLeaseIsNotCutByTheMaxHoldOfTheOneBefore, which was released by another way, unheard.
func TestAFreshLeaseIsNotCutByTheMaxHoldOfTheOneBefore(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	deaf := func(s *Service) { s.subscriber.eventChannel = "nowhere" }
	s, other, key := leash(t, rdb, Config{}, deaf), leash(t, rdb, Config{}), newKey()
	a := connect(t, s)
	first := a.token(key, "OWNER", "me", "LEASE", "20000", "MAXHOLD", "20000")
	h := a.carrier.ownHold(key, options{})
	a.carrier.mu.Lock()
	h.extra.maxHoldEnd = time.Now().Add(2 * time.Second) // as if it had been held for long
	a.carrier.mu.Unlock()
	want(t, connect(t, other).do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
	if token := a.token(key, "OWNER", "me", "LEASE", "20000"); token <= first {
		t.Errorf("got token %d after %d", token, first)
	}
	if left := rdb.PTTL(t.Context(), key).Val(); left < 15*time.Second {
		t.Errorf("the new lease lasts %v, want 20 s", left)
	}
}
