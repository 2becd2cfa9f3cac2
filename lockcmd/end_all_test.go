package lockcmd

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestR28MaxHoldEndsWhatIsLeft: a hold whose connection has ended, and which is left to run out, goes at its MAXHOLD all the same. What has none stays,
// and so does what its owner has taken over.
func TestR28MaxHoldEndsWhatIsLeft(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		tests := make(map[string]func(*testing.T))
		for name, options := range map[string][]string{"a lock": nil, "reading": {"READ"}, "writing": {"WRITE"}, "a lease": {"LEASE", "20000"}, "staying": {"OWNER", "me", "ONCLOSE", "EXPIRE"}} {
			tests[name] = func(t *testing.T) {
				began := time.Now()
				a, keys := connect(t, s), newKeys(4)
				a.token(append([]string{keys[0], "MAXHOLD", "400"}, options...)...)
				a.token(append([]string{keys[1], "MAXHOLD", "1200"}, options...)...)
				a.token(append([]string{keys[2]}, options...)...)
				a.token(append([]string{keys[3], "MAXHOLD", "25000"}, options...)...)
				receive(t, a.losses, 5*time.Second)
				a.carrier.End(Expire)
				if !exists(t, rdb, keys[1]) {
					t.Fatalf("%v after its grant the second has ended with the first", time.Since(began))
				}
				b := connect(t, other)
				b.token(keys[1], "BLOCK", "10000")
				if took := time.Since(began); took < 1200*time.Millisecond || took > 5*time.Second {
					t.Errorf("it was to be had %v after the grant", took)
				}
				if !exists(t, rdb, keys[2]) || !exists(t, rdb, keys[3]) {
					t.Error("what had no MAXHOLD, or has some left, is gone")
				}
			}
		}
		atOnce(t, tests)
	})
}

// TestR28MaxHoldSparesWhatWasTakenOver: at another carrier a hold goes at the same time, but its owner is told of it, and only once.
func TestR28MaxHoldSparesWhatWasTakenOver(t *testing.T) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for _, to := range []*Service{s, other} {
			key := newKey()
			a, b := connect(t, s), connect(t, to)
			token := strconv.FormatInt(a.token(key, "OWNER", "me", "MAXHOLD", "1500"), 10)
			a.carrier.End(Expire)
			want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token), ":"+token)
			if got := receive(t, b.losses, 5*time.Second); got != key+" "+reasonMaxHold {
				t.Errorf("told %q", got)
			}
			eventually(t, soon, "it has ended", func() bool { return !exists(t, rdb, key) })
		}
	})
}

// TestEndAtLimitEndsWithTheService: nobody waits for a limit when Leash stops.
func TestEndAtLimitEndsWithTheService(t *testing.T) {
	rdb := dialServer(t, sharedServer(t).Addr)
	s, kill := mortal(t, rdb, Config{})
	a, key := connect(t, s), newKey()
	a.token(key, "MAXHOLD", "25000")
	a.carrier.End(Expire)
	began := time.Now()
	kill()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v to end", took)
	}
	if !exists(t, rdb, key) {
		t.Error("the hold has ended")
	}
}
