package restore_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

// startWithClock starts a Redis whose clock the test can change.
func startWithClock(t *testing.T) (rdb *redis.Client, step func(time.Duration)) {
	t.Helper()
	server, err := redistest.Launch(redistest.Options{Clock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	rdb = locktest.DialServer(t, server.Addr)
	return rdb, func(d time.Duration) {
		t.Helper()
		began, before := time.Now(), rdb.Time(t.Context()).Val()
		if err := server.Clock.Step(d); err != nil {
			t.Fatal(err)
		}
		locktest.Eventually(t, locktest.Soon, "Redis has read its clock again", func() bool { // Valkey 9 waits for that
			want := before.Add(d + time.Since(began))
			return rdb.Time(t.Context()).Val().Sub(want).Abs() < time.Second
		})
	}
}

// TestR22DeadWaitersAreReapedAfterAClockStepBack: A waiter dies in the FAIR queue, and then Redis's
// clock is set back. The waiter is still removed, and as soon as if it had died after the step.
func TestR22DeadWaitersAreReapedAfterAClockStepBack(t *testing.T) {
	t.Parallel()
	rdb, step := startWithClock(t)
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	holder, a := locktest.Connect(t, s), locktest.Connect(t, s)
	holder.Token(key)
	for range 3 { // waiters that send nothing more
		dead := locktest.Connect(t, s)
		dead.Send(dead.FairWaiter(key, ""))
	}
	reply := a.WaitFair(rdb, 4, key, "BLOCK", "0")
	locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
	step(-time.Hour)
	locktest.Eventually(t, 5*time.Second, "they count as dead soon", func() bool {
		most := rdb.ZRangeWithScores(t.Context(), script.QueueKeys(key)[2], -1, -1).Val()
		return int64(most[0].Score) <= rdb.Time(t.Context()).Val().Add(2*wait.FairTimeout).UnixMilli()
	})
	step(2 * wait.FairTimeout)
	locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	locktest.WantNothingLeft(t, rdb, key)
}

// TestR22LiveWaitersKeepTheirOrder: Waiters in a FAIR queue keep their order when Redis's clock is
// set back or forward.
func TestR22LiveWaitersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]time.Duration{"an hour forward": time.Hour, "an hour back": -time.Hour,
		"by less than they count for": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			rdb, step := startWithClock(t)
			s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
			holder := locktest.Connect(t, s)
			holder.Token(key)
			const n = 5
			conns, replies := make([]*locktest.Client, n), make([]<-chan string, n)
			for i := range n {
				conns[i] = locktest.Connect(t, s)
				replies[i] = conns[i].WaitFair(rdb, i+1, key, "BLOCK", "0")
			}
			step(d)
			for i := range n {
				if i == 0 && d < time.Minute {
					locktest.Want(t, holder.Do("LOCK.RELEASE", key), ":1")
				}
				locktest.TokenOf(t, locktest.Receive(t, replies[i], 5*time.Second))
				locktest.Want(t, conns[i].Do("LOCK.RELEASE", key), ":1")
			}
			locktest.WantNothingLeft(t, rdb, key)
		})
	}
}

// TestR25ClockSteps: Redis's clock is set while a lock is held. The hold continues if the step
// leaves it some time, and it can be released as usual. Otherwise it expires, another owner gets
// the lock, and the holder is told.
func TestR25ClockSteps(t *testing.T) {
	t.Parallel()                 // mostly waiting
	const ttl = 30 * time.Second // until the next renewal, a third of the TTL passes
	for name, row := range map[string]struct {
		steps []time.Duration
		lost  bool
	}{
		"within what is left":  {[]time.Duration{4 * time.Second}, false},
		"an hour back":         {[]time.Duration{-time.Hour}, false},
		"an hour back, forth":  {[]time.Duration{-time.Hour, time.Hour}, false},
		"forth, back":          {[]time.Duration{4 * time.Second, -4 * time.Second}, false},
		"forward by more":      {[]time.Duration{ttl}, true},
		"an hour forward":      {[]time.Duration{time.Hour}, true},
		"an hour forth, back":  {[]time.Duration{time.Hour, -time.Hour}, true},
		"a moment, many times": {slices.Repeat([]time.Duration{20 * time.Millisecond}, 10), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb, step := startWithClock(t)
			s := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: ttl})
			holders, keys := make(map[*script.Mode]*locktest.Client), make(map[*script.Mode]string)
			for _, m := range script.Modes {
				holders[m], keys[m] = locktest.Connect(t, s), locktest.NewKey()
				holders[m].Hold(keys[m], m.Option, "OWNER", "me")
			}
			permits, holder := locktest.Semaphore(t, s, 1), locktest.Connect(t, s)
			permit := holder.Permit(permits)
			for _, d := range row.steps {
				step(d)
				for _, m := range script.Modes { // an expired hold is detected in every mode
					rdb.Exists(t.Context(), keys[m])
				}
				locktest.Connect(t, s).Do("SEM.ACQUIRE", permits)
			}
			renewed := s.Watchdog.Stats.Renewals.Load()
			if row.lost {
				for _, m := range script.Modes {
					locktest.Want(t, locktest.Receive(t, holders[m].Losses, ttl/3+time.Second), keys[m]+" gone")
				}
				locktest.Want(t, locktest.Receive(t, holder.Losses, ttl/3+time.Second), permits+" gone")
				return
			}
			locktest.Eventually(t, 2*ttl, "all are renewed twice", func() bool {
				return s.Watchdog.Stats.Renewals.Load() > renewed+int64(2*len(script.Modes)+2)
			})
			for _, m := range script.Modes {
				locktest.Want(t, locktest.Connect(t,
					s).Do(append([]string{"LOCK.ACQUIRE", keys[m]}, locktest.ExclusiveOptions(m)...)...), "$-1")
				locktest.Want(t, holders[m].Do("LOCK.RELEASE", keys[m], "OWNER", "me"), ":1")
				locktest.WantNothing(t, rdb, keys[m], holders[m])
			}
			locktest.Want(t, locktest.Connect(t, s).Do("SEM.ACQUIRE", permits), "$-1")
			locktest.Want(t, holder.Do("SEM.RELEASE", permits, permit), ":1")
		})
	}
}

// TestR12LeaseIsExtendedAfterAClockStepBack: Redis's clock is set back to a time before the grant.
// EXTEND still gives the lease its new length.
func TestR12LeaseIsExtendedAfterAClockStepBack(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(*testing.T))
	for _, m := range script.Modes {
		for ms, back := range map[string]bool{"6000": false, "9000": true, "20000": true} {
			tests[m.Option+" to "+ms] = func(t *testing.T) {
				rdb, step := startWithClock(t)
				s := locktest.Start(t, rdb, lockcmd.Config{})
				step(10 * time.Second)
				a, key := locktest.Connect(t, s), locktest.NewKey()
				token := strconv.FormatInt(a.Hold(key, m.Option, "LEASE", "30000"), 10)
				step(-10 * time.Second)
				locktest.Want(t, a.Do("LOCK.EXTEND", key, ms), ":"+ms)
				locktest.Want(t, locktest.Connect(t, s).Do("LOCK.CHECK", key, "TOKEN", token), ":1")
				locktest.Want(t, locktest.Connect(t,
					s).Do(append([]string{"LOCK.ACQUIRE", key}, locktest.ExclusiveOptions(m)...)...), "$-1")
				if back {
					locktest.Want(t, locktest.Connect(t, s).Do("LOCK.RELEASE", key, "TOKEN", token), ":1")
					locktest.WantNothing(t, rdb, key, a)
					return
				}
				// the lease expires by itself
				locktest.Connect(t, s).Token(append([]string{key, "BLOCK", "0"}, locktest.ExclusiveOptions(m)...)...)
			}
		}
	}
	locktest.RunParallel(t, tests)
}

// TestR2GraceAfterAClockStepBack: The clock of Redis is set back to before the server started. That
// starts no new grace period, and a new Leash does not wait for longer than usual.
func TestR2GraceAfterAClockStepBack(t *testing.T) {
	t.Parallel()
	for _, was := range []string{"master", "replica"} {
		t.Run(was, func(t *testing.T) {
			rdb, step := startWithClock(t)
			if was == "replica" {
				host, port, _ := strings.Cut(redistest.Start(t).Addr, ":")
				rdb.Do(t.Context(), "REPLICAOF", host, port)
				locktest.Eventually(t, locktest.Soon, "it is one", func() bool {
					return strings.Contains(rdb.Info(t.Context(), "replication").Val(), "master_link_status:up")
				})
				rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE")
			}
			left := func(s *lockcmd.Service) time.Duration {
				if _, ok := s.Graces.MasterOf("", time.Now(), time.Now().Add(locktest.Soon)); !ok {
					t.Error("the master does not answer")
				}
				_, left := s.Graces.Active()
				return left
			}
			const grace = 5 * time.Second
			cfg := lockcmd.Config{WatchdogTimeout: grace, FailoverGrace: grace}
			s := locktest.Start(t, rdb, cfg)
			locktest.Eventually(t, locktest.Soon, "the server is known not to be new", func() bool {
				return left(s) == 0 && s.Graces.GrantingMaster("") != "-"
			})
			step(-time.Hour)
			if left := left(s); left > 0 {
				t.Errorf("nothing is granted for %v", left)
			}
			if left := left(locktest.Start(t, rdb, cfg)); left <= 0 || left > grace+time.Second {
				t.Errorf("a new Leash, for whom that may have been just now, grants nothing for %v", left)
			}
			if left := left(s); left > 0 {
				t.Errorf("after the probe of another Leash, nothing is granted for %v", left)
			}
		})
	}
}

// TestR2LeaseIsRestoredWhereTheClockIsBehind: A failover leads to a master whose clock is behind.
// The lease is restored there.
func TestR2LeaseIsRestoredWhereTheClockIsBehind(t *testing.T) {
	t.Parallel()
	for _, m := range script.Modes {
		t.Run(m.Option, func(t *testing.T) {
			rdb, step := startWithClock(t)
			s := locktest.Start(t, rdb, locktest.GraceConfig(), locktest.Graceful)
			step(10 * time.Second)
			a, key := locktest.Connect(t, s), locktest.NewKey()
			token := strconv.FormatInt(a.Hold(key, m.Option, "LEASE", "8000"), 10)
			step(-10 * time.Second)
			defer locktest.BeginGrace(t, s, key)()
			locktest.Forget(t, rdb, key)
			s.Watchdog.CheckAll()
			locktest.Eventually(t, locktest.Soon, "the hold is restored",
				func() bool { return rdb.PTTL(t.Context(), key).Val() > 0 })
			locktest.Want(t, locktest.Connect(t, s).Do("LOCK.CHECK", key, "TOKEN", token), ":1")
			locktest.Want(t, locktest.Connect(t, s).Do("LOCK.RELEASE", key, "TOKEN", token), ":1")
			locktest.WantNothing(t, rdb, key, a)
		})
	}
}

// TestR2ReleaseWhenRedisEndsTheGrace: Redis's clock was set forward, so the grace period ends in
// Redis before it ends in Leash. A release then restores nothing and does not wait.
func TestR2ReleaseWhenRedisEndsTheGrace(t *testing.T) {
	t.Parallel()
	for _, m := range script.Modes {
		t.Run(m.Option, func(t *testing.T) {
			rdb, step := startWithClock(t)
			s := locktest.Start(t, rdb, locktest.GraceConfig(), locktest.Graceful)
			a, lost, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
			a.Hold(key, m.Option, "LEASE", "36000000")
			lost.Hold(key+" lost", m.Option)
			defer locktest.BeginGrace(t, s, key)()
			step(2 * time.Hour)
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			locktest.WantNothing(t, rdb, key, a)
			s.Watchdog.CheckAll()
			locktest.Want(t, locktest.Receive(t, lost.Losses, locktest.Soon), key+" lost gone")
			if masters, _ := s.Graces.Active(); masters != 1 {
				t.Error("the grace is over for who wants a lock")
			}
		})
	}
}

// TestR2RestoredHoldBeganBeforeNow: Redis's clock was set back, so the token of a new hold is ahead
// of the time. The restored record must still have a start in the past.
func TestR2RestoredHoldBeganBeforeNow(t *testing.T) {
	t.Parallel()
	for _, m := range script.Modes {
		t.Run(m.Option, func(t *testing.T) {
			rdb, step := startWithClock(t)
			s, key := locktest.Start(t, rdb, locktest.GraceConfig(), locktest.Graceful), locktest.NewKey()
			step(time.Hour)
			ahead := locktest.Connect(t, s)
			ahead.Hold(key, m.Option)
			locktest.Want(t, ahead.Do("LOCK.RELEASE", key), ":1")
			step(-time.Hour)
			a := locktest.Connect(t, s)
			a.Hold(key, m.Option)
			defer locktest.BeginGrace(t, s, key)()
			locktest.Forget(t, rdb, key)
			s.Watchdog.CheckAll()
			locktest.Eventually(t, locktest.Soon, "the hold is restored",
				func() bool { return rdb.PTTL(t.Context(), key).Val() > 0 })
			r, ok := locktest.RecordOf(t, rdb, a.Last(func(*hold.Hold) bool { return true }))
			if now := rdb.Time(t.Context()).Val().UnixMilli(); !ok || r.Since > now || r.Since < now-60_000 {
				t.Errorf("it is said to have begun %d ms from now", r.Since-now)
			}
		})
	}
}
