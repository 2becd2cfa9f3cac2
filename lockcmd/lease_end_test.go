package lockcmd

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/renewal"
)

// expiredLease returns a connection whose lease has ended by Leash's count, and not by Redis's. The
// watchdog's checks do not reach Redis.
func expiredLease(t *testing.T) (s *Service, a *conn, key string) {
	s, _, p := faulty(t, Config{})
	a, key = connect(t, s), newKey()
	a.token(key, "OWNER", "me", "LEASE", "60000")
	p.HoldBefore(running(script.RenewScript, key), faultproxy.Always())
	h := a.carrier.Newest(lockOf(key), func(*hold.Hold) bool { return true })
	s.Watchdog.Correct(&h.Watch, time.Now(), time.Now())
	eventually(t, soon, "our count is over", h.LeaseOver)
	return s, a, key
}

func TestExpiredLeaseIsNotReentered(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		for _, mode := range [][]string{nil, {"READ"}} {
			again := func() bool {
				a, key := connect(t, s), newKey()
				first := a.token(append([]string{key, "OWNER", "me", "LEASE", "4000"}, mode...)...)
				h := a.carrier.ownHold(key, options{})
				time.Sleep(3800 * time.Millisecond)
				s.Watchdog.Correct(&h.Watch, time.Now(), time.Now())
				token := a.token(append([]string{key, "OWNER", "me", "LEASE", "20000"}, mode...)...)
				if token != first {
					a.ms(20000, "LOCK.TTL", key)
					want(t, a.do("LOCK.RELEASE", key), ":1") // the hold counts one acquire
				}
				want(t, strconv.Itoa(len(a.losses)), "0")
				return token == first
			}
			tries := 1
			// A check of the watchdog came first, and Redis still had the lease for a moment.
			for ; again(); tries++ {
				if tries == 5 {
					t.Fatalf("%v: an expired lease was acquired again", mode)
				}
			}
		}
	})
}

func TestExpiredLeaseIsReleased(t *testing.T) {
	t.Parallel()
	s, a, key := expiredLease(t)
	want(t, a.do("LOCK.RELEASE", key), ":1") // Redis still had it
	want(t, a.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
	if n := s.Stats().Holds; n != 0 || len(a.losses) != 0 {
		t.Errorf("%d holds are left, %d losses were told", n, len(a.losses))
	}
}

// TestExpiredLeaseHidesNoOtherHold: The connection has two READ holds of one lock. When one lease
// has expired, commands find the other.
func TestExpiredLeaseHidesNoOtherHold(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a, key := connect(t, s), newKey()
	token := a.token(key, "READ", "LEASE", "60000")
	a.token(key, "READ", "LEASE", "50000")
	expired := a.carrier.last(func(*hold.Hold) bool { return true })
	s.Watchdog.Correct(&expired.Watch, time.Now(), time.Now())
	eventually(t, soon, "our count is over", expired.LeaseOver)
	if left, _ := strconv.Atoi(a.do("LOCK.TTL", key)[1:]); left < 50000 {
		t.Errorf("%d ms are left of the other", left)
	}
	if h := a.carrier.ownHold(key, options{}); h.Token != token {
		t.Errorf("got the hold with token %d, want %d", h.Token, token)
	}
}

// TestExpiredLeaseIsNoLoss: Something else ends a lease that has already expired. No loss is
// reported.
func TestExpiredLeaseIsNoLoss(t *testing.T) {
	t.Parallel()
	_, a, key := expiredLease(t)
	h := a.carrier.Newest(lockOf(key), func(*hold.Hold) bool { return true })
	if h.Evict(hold.ReasonIdle) || len(a.losses) != 0 || a.carrier.Holds() != 0 {
		t.Errorf("%d losses were reported, %d holds are left", len(a.losses), a.carrier.Holds())
	}
}

// TestR27ExpiredLeaseDoesNotCountForTheQuorum: One of three leases has expired and another is lost,
// so the quorum of two is lost.
func TestR27ExpiredLeaseDoesNotCountForTheQuorum(t *testing.T) {
	t.Parallel()
	s, _, p := faulty(t, Config{})
	a, key := connect(t, s), newKey()
	wantPrefix(t, a.do("LOCK.MACQUIRE", "3", key+"a", key+"b", key+"c", "QUORUM", "2", "LEASE", "60000"), "*3")
	mine := func(key string) *hold.Hold { return a.carrier.ownHold(key, options{}) }
	p.Freeze() // Redis cannot tell whether the lease has expired
	s.Watchdog.Correct(&mine(key+"a").Watch, time.Now(), time.Now())
	eventually(t, soon, "it is over", mine(key+"a").LeaseOver)
	mine(key + "b").Lost(renewal.ReasonGone)
	want(t, receive(t, a.losses, soon), key+"b gone")
	p.Thaw()
}

// TestNewLeaseIgnoresThePreviousMaxHold: The previous hold was released without an event. Its
// MAXHOLD does not limit the new lease.
func TestNewLeaseIgnoresThePreviousMaxHold(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	withoutEvents := func(s *Service) { s.Events.Own = "nowhere" }
	s, other, key := leash(t, rdb, Config{}, withoutEvents), leash(t, rdb, Config{}), newKey()
	a := connect(t, s)
	first := a.token(key, "OWNER", "me", "LEASE", "20000", "MAXHOLD", "5000")
	want(t, connect(t, other).do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
	if token := a.token(key, "OWNER", "me", "LEASE", "20000"); token <= first {
		t.Errorf("got token %d after %d", token, first)
	}
	if left := rdb.PTTL(t.Context(), key).Val(); left < 15*time.Second {
		t.Errorf("the new lease lasts %v, want 20 s", left)
	}
}
