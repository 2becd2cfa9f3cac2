package lockcmd

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// TestR28MaxHoldEndsAHoldLeftToExpire: A connection has ended and left its holds to expire. Each
// hold still ends at its MAXHOLD. A hold without MAXHOLD stays, and so does one whose MAXHOLD has
// not passed.
func TestR28MaxHoldEndsAHoldLeftToExpire(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		tests := make(map[string]func(*testing.T))
		for name, row := range map[string]struct {
			options string
			how     Ending
			counts  int
		}{
			"a lock": {"", Expire, 1}, "reading": {"READ", Expire, 1}, "writing": {"WRITE", Expire, 1},
			"fair":    {"FAIR", Expire, 1},
			"staying": {"OWNER me ONCLOSE EXPIRE", Release, 1}, "taken twice": {"OWNER me", Expire, 2},
		} {
			tests[name] = func(t *testing.T) {
				a, keys := connect(t, s), newKeys(4)
				began := time.Now()
				for key, maxHold := range map[string]string{keys[0]: "MAXHOLD 1000", keys[1]: "MAXHOLD 4000",
					keys[2]: "", keys[3]: "MAXHOLD 29000"} {
					for range row.counts {
						a.token(append([]string{key}, strings.Fields(maxHold+" "+row.options)...)...)
					}
				}
				receive(t, a.losses, soon)
				a.carrier.End(row.how)
				if !exists(t, rdb, keys[1]) && time.Since(began) < 4*time.Second {
					t.Fatal("the second has ended with the first")
				}
				connect(t, other).token(keys[1], "BLOCK", "25000")
				if took := time.Since(began); took < 4*time.Second || took > 20*time.Second {
					t.Errorf("it was free %v after the grant", took)
				}
				if !exists(t, rdb, keys[2]) || !exists(t, rdb, keys[3]) {
					t.Error("a hold without MAXHOLD, or with some of it left, is gone")
				}
			}
		}
		runParallel(t, tests)
	})
}

// wait returns how long the next hold is left. It acts as if that time had come, and the hold is
// ended before it returns.
func (l *limits) wait(t *testing.T) time.Duration {
	t.Helper()
	l.mu.Lock()
	if len(l.holds) != 1 {
		l.mu.Unlock()
		t.Fatalf("%d holds have a limit, want 1", len(l.holds))
	}
	left := time.Until(l.holds[0].at)
	l.mu.Unlock()
	due, _ := l.due(time.Now().Add(left))
	receive(t, l.release(due), soon)
	return left
}

// TestR28MaxHoldSparesAnAttachedHold: MAXHOLD of a hold that was left to expire has passed. The
// hold may have another carrier now, which keeps it.
func TestR28MaxHoldSparesAnAttachedHold(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for _, to := range []*Service{s, other, nil} {
			key := newKey()
			a := connect(t, s)
			token := strconv.FormatInt(a.token(key, "OWNER", "me", "MAXHOLD", "25000"), 10)
			a.carrier.End(Expire)
			if to != nil {
				want(t, connect(t, to).do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token), ":"+token)
			}
			if left := s.limits.wait(t); left > 25*time.Second {
				t.Errorf("it has %v left", left)
			}
			if there := exists(t, rdb, key); there != (to != nil) {
				t.Errorf("taken over %v, there %v", to != nil, there)
			}
		}
	})
}

// TestR28MaxHoldAfterAMoveToAnEndedConnection: A connection has ended while its hold was moved to
// it, or while a count of it was released. The hold still ends at its MAXHOLD.
func TestR28MaxHoldAfterAMoveToAnEndedConnection(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, gone := connect(t, other), connect(t, s)
		token := strconv.FormatInt(a.token(key, "OWNER", "me", "MAXHOLD", "25000"), 10)
		gone.carrier.End(Expire)
		want(t, gone.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token), "-"+msgGone)
		s.limits.wait(t)
		if exists(t, rdb, key) {
			t.Error("moved: it is still there")
		}

		key = newKey()
		b := connect(t, s)
		b.token(key, "OWNER", "me", "MAXHOLD", "25000")
		rdb.HIncrBy(context.Background(), key, "me", 1) // an acquire that Leash does not know
		h := s.holds.Find(lockOf(key), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.deadline()) {
			t.Fatal("its request lock is taken")
		}
		rel := s.beginRelease(h, false)
		b.carrier.End(Expire)
		if code, err := rel.send(s.deadline()); code != script.CountsRemain || err != nil {
			t.Fatalf("released: %d, %v", code, err)
		}
		h.UnlockRequests()
		s.limits.wait(t)
		if exists(t, rdb, key) {
			t.Error("released: it is still there")
		}
	})
}

// TestR28MaxHoldDuringAReleaseThatFails: MAXHOLD ends while the owner releases the lock, and Redis
// refuses the release. The owner loses the lock then.
func TestR28MaxHoldDuringAReleaseThatFails(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		a.token(key, "MAXHOLD", "2000")
		h := s.holds.Find(lockOf(key), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.deadline()) {
			t.Fatal("its request lock is taken")
		}
		rel := s.beginRelease(h, true)
		eventually(t, soon, "MAXHOLD is over", func() bool { return h.MaxHoldLeft(time.Now()) <= 0 })
		if h.Evict(hold.ReasonMaxHold) || len(a.losses) != 0 {
			t.Error("it was lost during the release")
		}
		rel.resume()
		h.UnlockRequests()
		want(t, receive(t, a.losses, soon), key+" "+hold.ReasonMaxHold)
		eventually(t, soon, "it is released", func() bool { return !exists(t, rdb, key) })
	})
}

// TestR16MaxHoldWaitsForCommands: MAXHOLD ends nothing while Redis may still run a command of the
// connection.
func TestR16MaxHoldWaitsForCommands(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a := connect(t, s)
	a.token(newKey(), "MAXHOLD", "100")
	a.token(newKey(), "MAXHOLD", "20000")
	a.token(newKey(), "LEASE", "29000", "MAXHOLD", "20000")
	receive(t, a.losses, soon)
	a.carrier.EndUnsure(time.Now().Add(25 * time.Second))
	if left := s.limits.wait(t); left < 24*time.Second || left > 25*time.Second {
		t.Errorf("it is released in %v, want 25 s", left)
	}
	b := connect(t, s)
	b.token(newKey(), "MAXHOLD", "20000")
	b.carrier.EndUnsure(time.Now().Add(35 * time.Second))
	if n := s.limits.holds.Len(); n != 0 {
		t.Errorf("%d are to be released when they have run out", n)
	}
}

// TestLimitsAreDropped: The list of limits is bounded, and it is dropped when the Service ends. The
// holds in it expire.
func TestLimitsAreDropped(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, kill := killableLeash(t, rdb, Config{})
	a, key := connect(t, s), newKey()
	a.token(key, "MAXHOLD", "25000")
	a.carrier.End(Expire)
	h := hold.New(&a.carrier.Carrier, &hold.Grant{Key: key, Mode: script.Plain, Number: 1, TTL: time.Hour,
		Terms: script.Terms{MaxHold: time.Minute}, Since: time.Now()})
	for range 3 {
		many := make([]*hold.Hold, maxLimits/2)
		for i := range many {
			many[i] = h
		}
		s.limits.add(many, time.Time{})
	}
	if n := s.limits.holds.Len(); n != maxLimits {
		t.Errorf("%d are kept, want %d", n, maxLimits)
	}
	began := time.Now()
	kill()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v to end", took)
	}
	if !exists(t, rdb, key) {
		t.Error("the hold has ended")
	}
}
