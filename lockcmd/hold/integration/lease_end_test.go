package hold_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/renewal"
)

// expiredLease returns a connection whose lease has ended by Leash's count, and not by Redis's. The
// watchdog's checks do not reach Redis.
func expiredLease(t *testing.T) (s *lockcmd.Service, a *locktest.Client, key string) {
	s, _, p := locktest.StartFaulty(t, lockcmd.Config{})
	a, key = locktest.Connect(t, s), locktest.NewKey()
	a.Token(key, "OWNER", "me", "LEASE", "60000")
	p.HoldBefore(locktest.Running(script.RenewScript, key), faultproxy.Always())
	h := a.Carrier.Newest(locktest.LockOf(key), func(*hold.Hold) bool { return true })
	s.Watchdog.Correct(&h.Watch, time.Now(), time.Now())
	locktest.Eventually(t, locktest.Soon, "our count is over", h.LeaseOver)
	return s, a, key
}

func TestExpiredLeaseIsNotReentered(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		for _, mode := range [][]string{nil, {"READ"}} {
			again := func() bool {
				a, key := locktest.Connect(t, s), locktest.NewKey()
				first := a.Token(append([]string{key, "OWNER", "me", "LEASE", "4000"}, mode...)...)
				h := a.Carrier.NewestReported(locktest.LockOf(key), hold.Selector{}.Means)
				time.Sleep(3800 * time.Millisecond)
				s.Watchdog.Correct(&h.Watch, time.Now(), time.Now())
				token := a.Token(append([]string{key, "OWNER", "me", "LEASE", "20000"}, mode...)...)
				if token != first {
					a.Ms(20000, "LOCK.TTL", key)
					locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1") // the hold counts one acquire
				}
				locktest.Want(t, strconv.Itoa(len(a.Losses)), "0")
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
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1") // Redis still had it
	locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
	if n := s.Stats().Holds; n != 0 || len(a.Losses) != 0 {
		t.Errorf("%d holds are left, %d losses were told", n, len(a.Losses))
	}
}

// TestExpiredLeaseHidesNoOtherHold: The connection has two READ holds of one lock. When one lease
// has expired, commands find the other.
func TestExpiredLeaseHidesNoOtherHold(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	token := a.Token(key, "READ", "LEASE", "60000")
	a.Token(key, "READ", "LEASE", "50000")
	expired := a.Last(func(*hold.Hold) bool { return true })
	s.Watchdog.Correct(&expired.Watch, time.Now(), time.Now())
	locktest.Eventually(t, locktest.Soon, "our count is over", expired.LeaseOver)
	if left, _ := strconv.Atoi(a.Do("LOCK.TTL", key)[1:]); left < 50000 {
		t.Errorf("%d ms are left of the other", left)
	}
	if h := a.Carrier.NewestReported(locktest.LockOf(key), hold.Selector{}.Means); h.Token != token {
		t.Errorf("got the hold with token %d, want %d", h.Token, token)
	}
}

// TestExpiredLeaseIsNoLoss: Something else ends a lease that has already expired. No loss is
// reported.
func TestExpiredLeaseIsNoLoss(t *testing.T) {
	t.Parallel()
	_, a, key := expiredLease(t)
	h := a.Carrier.Newest(locktest.LockOf(key), func(*hold.Hold) bool { return true })
	if h.Evict(hold.ReasonIdle) || len(a.Losses) != 0 || a.Carrier.Holds() != 0 {
		t.Errorf("%d losses were reported, %d holds are left", len(a.Losses), a.Carrier.Holds())
	}
}

// TestR27ExpiredLeaseDoesNotCountForTheQuorum: One of three leases has expired and another is lost,
// so the quorum of two is lost.
func TestR27ExpiredLeaseDoesNotCountForTheQuorum(t *testing.T) {
	t.Parallel()
	s, _, p := locktest.StartFaulty(t, lockcmd.Config{})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	locktest.WantPrefix(t, a.Do("LOCK.MACQUIRE", "3", key+"a", key+"b", key+"c", "QUORUM", "2", "LEASE", "60000"), "*3")
	mine := func(key string) *hold.Hold {
		return a.Carrier.NewestReported(locktest.LockOf(key), hold.Selector{}.Means)
	}
	p.Freeze() // Redis cannot tell whether the lease has expired
	s.Watchdog.Correct(&mine(key+"a").Watch, time.Now(), time.Now())
	locktest.Eventually(t, locktest.Soon, "it is over", mine(key+"a").LeaseOver)
	mine(key + "b").Lost(renewal.ReasonGone)
	locktest.Want(t, locktest.Receive(t, a.Losses, locktest.Soon), key+"b gone")
	p.Thaw()
}

// TestNewLeaseIgnoresThePreviousMaxHold: The previous hold was released without an event. Its
// MAXHOLD does not limit the new lease.
func TestNewLeaseIgnoresThePreviousMaxHold(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	withoutEvents := func(s *lockcmd.Service) { s.Events.Own = "nowhere" }
	s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, withoutEvents), locktest.Start(t, rdb, lockcmd.Config{}),
		locktest.NewKey()
	a := locktest.Connect(t, s)
	first := a.Token(key, "OWNER", "me", "LEASE", "20000", "MAXHOLD", "5000")
	locktest.Want(t, locktest.Connect(t, other).Do("LOCK.RELEASE", key, "OWNER", "me"), ":1")
	if token := a.Token(key, "OWNER", "me", "LEASE", "20000"); token <= first {
		t.Errorf("got token %d after %d", token, first)
	}
	if left := rdb.PTTL(t.Context(), key).Val(); left < 15*time.Second {
		t.Errorf("the new lease lasts %v, want 20 s", left)
	}
}
