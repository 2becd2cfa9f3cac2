package release_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
)

// TestR28MaxHoldEndsAHoldLeftToExpire: A connection has ended and left its holds to expire. Each
// hold still ends at its MAXHOLD. A hold without MAXHOLD stays, and so does one whose MAXHOLD has
// not passed.
func TestR28MaxHoldEndsAHoldLeftToExpire(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		tests := make(map[string]func(*testing.T))
		for name, row := range map[string]struct {
			options string
			how     lockcmd.Ending
			counts  int
		}{
			"a lock": {"", lockcmd.Expire, 1}, "reading": {"READ", lockcmd.Expire, 1},
			"writing": {"WRITE", lockcmd.Expire, 1},
			"fair":    {"FAIR", lockcmd.Expire, 1},
			"staying": {"OWNER me ONCLOSE EXPIRE", lockcmd.Release, 1}, "taken twice": {"OWNER me", lockcmd.Expire, 2},
		} {
			tests[name] = func(t *testing.T) {
				a, keys := locktest.Connect(t, s), locktest.NewKeys(3)
				began := time.Now()
				for key, maxHold := range map[string]string{keys[0]: "MAXHOLD 6000", keys[1]: "",
					keys[2]: "MAXHOLD 29000"} {
					for range row.counts {
						a.Token(append([]string{key}, strings.Fields(maxHold+" "+row.options)...)...)
					}
				}
				a.Carrier.End(row.how)
				locktest.Connect(t, other).Token(keys[0], "BLOCK", "25000")
				if took := time.Since(began); took < 6*time.Second || took > 20*time.Second {
					t.Errorf("it was free %v after the grant", took)
				}
				if !locktest.Exists(t, rdb, keys[1]) || !locktest.Exists(t, rdb, keys[2]) {
					t.Error("a hold without MAXHOLD, or with some of it left, is gone")
				}
			}
		}
		locktest.RunParallel(t, tests)
	})
}

// wantReleased fails if the hold of key does not end long before its TTL is over.
func wantReleased(t *testing.T, rdb redis.UniversalClient, key string) {
	t.Helper()
	began := time.Now()
	locktest.Eventually(t, locktest.Soon, "it is released", func() bool { return !locktest.Exists(t, rdb, key) })
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it ended after %v", took)
	}
}

// TestR28MaxHoldSparesAnAttachedHold: MAXHOLD of a hold that was left to expire has passed. The
// hold may have another carrier now, which keeps it.
func TestR28MaxHoldSparesAnAttachedHold(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		for _, to := range []*lockcmd.Service{s, other, nil} {
			key := locktest.NewKey()
			a := locktest.Connect(t, s)
			token := strconv.FormatInt(a.Token(key, "OWNER", "me", "MAXHOLD", "25000"), 10)
			h := a.Oldest()
			a.Carrier.End(lockcmd.Expire)
			if to != nil {
				locktest.Want(t, locktest.Connect(t, to).Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token),
					":"+token)
			}
			kept := h.Copy(h.Carrier.Detached()) // its time has come
			locktest.Receive(t, s.Releaser.EndAll([]hold.Change{{Hold: kept, Until: time.Now()}}), locktest.Soon)
			if there := locktest.Exists(t, rdb, key); there != (to != nil) {
				t.Errorf("taken over %v, there %v", to != nil, there)
			}
		}
	})
}

// TestR28MaxHoldAfterAMoveToAnEndedConnection: A connection has ended while its hold was moved to
// it, or while a count of it was released. The hold still ends at its MAXHOLD.
func TestR28MaxHoldAfterAMoveToAnEndedConnection(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, gone := locktest.Connect(t, other), locktest.Connect(t, s)
		token := strconv.FormatInt(a.Token(key, "OWNER", "me", "MAXHOLD", "6000"), 10)
		gone.Carrier.End(lockcmd.Expire)
		locktest.Want(t, gone.Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token), "-"+refusal.Gone)
		wantReleased(t, rdb, key)

		key = locktest.NewKey()
		b := locktest.Connect(t, s)
		b.Token(key, "OWNER", "me", "MAXHOLD", "6000")
		rdb.HIncrBy(context.Background(), key, "me", 1) // an acquire that Leash does not know
		h := s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.Redis.Deadline()) {
			t.Fatal("its request lock is taken")
		}
		_, until, ok := h.BeginRelease(false)
		b.Carrier.End(lockcmd.Expire)
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
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a := locktest.Connect(t, s)
		a.Token(key, "MAXHOLD", "5000")
		h := s.Holds.Find(locktest.LockOf(key), func(*hold.Hold) bool { return true })
		if !h.LockRequests(s.Redis.Deadline()) {
			t.Fatal("its request lock is taken")
		}
		_, until, _ := h.BeginRelease(true)
		locktest.Eventually(t, locktest.Soon, "MAXHOLD is over", func() bool { return h.MaxHoldLeft(time.Now()) <= 0 })
		if h.Evict(hold.ReasonMaxHold) || len(a.Losses) != 0 {
			t.Error("it was lost during the release")
		}
		h.ResumeAfterRelease(until)
		h.UnlockRequests()
		locktest.Want(t, locktest.Receive(t, a.Losses, locktest.Soon), key+" "+hold.ReasonMaxHold)
		locktest.Eventually(t, locktest.Soon, "it is released", func() bool { return !locktest.Exists(t, rdb, key) })
	})
}

// TestR16MaxHoldWaitsForCommands: MAXHOLD ends nothing while Redis may still run a command of the
// connection.
func TestR16MaxHoldWaitsForCommands(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s := locktest.Start(t, rdb, lockcmd.Config{})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	a.Token(key, "MAXHOLD", "6000")
	unsure := time.Now().Add(8 * time.Second)
	a.Carrier.EndUnsure(unsure)
	wantReleased(t, rdb, key)
	if early := time.Until(unsure); early > 0 {
		t.Errorf("it was released %v before Redis had run all commands", early)
	}
}

// TestMaxHoldAfterTheEndOfTheLeash: The Leash stops before MAXHOLD of a hold that was left to
// expire. The hold stays, and nothing waits for it.
func TestMaxHoldAfterTheEndOfTheLeash(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s, kill := locktest.StartKillable(t, rdb, lockcmd.Config{})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	a.Token(key, "MAXHOLD", "25000")
	a.Carrier.End(lockcmd.Expire)
	began := time.Now()
	kill()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v to end", took)
	}
	if !locktest.Exists(t, rdb, key) {
		t.Error("the hold has ended")
	}
}
