package lockcmd

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
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
				a, keys := connect(t, s), newKeys(3)
				began := time.Now()
				for key, maxHold := range map[string]string{keys[0]: "MAXHOLD 6000", keys[1]: "",
					keys[2]: "MAXHOLD 29000"} {
					for range row.counts {
						a.token(append([]string{key}, strings.Fields(maxHold+" "+row.options)...)...)
					}
				}
				a.carrier.End(row.how)
				connect(t, other).token(keys[0], "BLOCK", "25000")
				if took := time.Since(began); took < 6*time.Second || took > 20*time.Second {
					t.Errorf("it was free %v after the grant", took)
				}
				if !exists(t, rdb, keys[1]) || !exists(t, rdb, keys[2]) {
					t.Error("a hold without MAXHOLD, or with some of it left, is gone")
				}
			}
		}
		runParallel(t, tests)
	})
}

// wantReleased fails if the hold of key does not end long before its TTL is over.
func wantReleased(t *testing.T, rdb redis.UniversalClient, key string) {
	t.Helper()
	began := time.Now()
	eventually(t, soon, "it is released", func() bool { return !exists(t, rdb, key) })
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it ended after %v", took)
	}
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
			h := a.carrier.oldest()
			a.carrier.End(Expire)
			if to != nil {
				want(t, connect(t, to).do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token), ":"+token)
			}
			kept := h.Copy(h.Carrier.Detached()) // its time has come
			receive(t, s.Releaser.EndAll([]hold.Change{{Hold: kept, Until: time.Now()}}), soon)
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
		token := strconv.FormatInt(a.token(key, "OWNER", "me", "MAXHOLD", "6000"), 10)
		gone.carrier.End(Expire)
		want(t, gone.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token), "-"+refusal.Gone)
		wantReleased(t, rdb, key)

		key = newKey()
		b := connect(t, s)
		b.token(key, "OWNER", "me", "MAXHOLD", "6000")
		rdb.HIncrBy(context.Background(), key, "me", 1) // an acquire that Leash does not know
		h := s.Holds.Find(lockOf(key), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.deadline()) {
			t.Fatal("its request lock is taken")
		}
		_, until, ok := h.BeginRelease(false)
		b.carrier.End(Expire)
		if !ok || !time.Now().Before(until) {
			t.Fatalf("the release has begun: %v, safe until %v", ok, until)
		}
		h.ResumeAfterRelease(until) // as after an answer that counts remain
		h.UnlockRequests()
		wantReleased(t, rdb, key)
	})
}

// TestR28MaxHoldDuringAReleaseThatFails: MAXHOLD ends while the owner releases the lock, and Redis
// refuses the release. The owner loses the lock then.
func TestR28MaxHoldDuringAReleaseThatFails(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		a.token(key, "MAXHOLD", "5000")
		h := s.Holds.Find(lockOf(key), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.deadline()) {
			t.Fatal("its request lock is taken")
		}
		_, until, _ := h.BeginRelease(true)
		eventually(t, soon, "MAXHOLD is over", func() bool { return h.MaxHoldLeft(time.Now()) <= 0 })
		if h.Evict(hold.ReasonMaxHold) || len(a.losses) != 0 {
			t.Error("it was lost during the release")
		}
		h.ResumeAfterRelease(until)
		h.UnlockRequests()
		want(t, receive(t, a.losses, soon), key+" "+hold.ReasonMaxHold)
		eventually(t, soon, "it is released", func() bool { return !exists(t, rdb, key) })
	})
}

// TestR16MaxHoldWaitsForCommands: MAXHOLD ends nothing while Redis may still run a command of the
// connection.
func TestR16MaxHoldWaitsForCommands(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s := leash(t, rdb, Config{})
	a, key := connect(t, s), newKey()
	a.token(key, "MAXHOLD", "6000")
	unsure := time.Now().Add(8 * time.Second)
	a.carrier.EndUnsure(unsure)
	wantReleased(t, rdb, key)
	if early := time.Until(unsure); early > 0 {
		t.Errorf("it was released %v before Redis had run all commands", early)
	}
}

// TestMaxHoldAfterTheEndOfTheLeash: The Leash stops before MAXHOLD of a hold that was left to
// expire. The hold stays, and nothing waits for it.
func TestMaxHoldAfterTheEndOfTheLeash(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s, kill := killableLeash(t, rdb, Config{})
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
