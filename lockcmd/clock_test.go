package lockcmd

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/redistest"
)

// stepped is a Redis whose clock can be stepped.
func stepped(t *testing.T) (rdb *redis.Client, step func(time.Duration)) {
	t.Helper()
	server, err := redistest.Launch(redistest.Options{Clock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return dialServer(t, server.Addr), func(d time.Duration) {
		t.Helper()
		if err := server.Clock.Step(d); err != nil {
			t.Fatal(err)
		}
	}
}

// TestR22ADeadWaiterDoesNotOutliveAStepBack: when Redis's clock is set back, who died in the queue
// before is taken out all the same, and as soon as if it had died then.
func TestR22ADeadWaiterDoesNotOutliveAStepBack(t *testing.T) {
	t.Parallel()
	rdb, step := stepped(t)
	s, key := leash(t, rdb, Config{}), newKey()
	holder, a := connect(t, s), connect(t, s)
	holder.token(key)
	for range 3 { // of whom nobody hears again
		connect(t, s).carrier.newAcquisition(acquireOptions{mode: fair, key: key, wait: true, ttl: 30 * time.Second}, nil).send(s.deadline())
	}
	reply := a.waitFair(rdb, 4, key, "BLOCK", "0")
	want(t, holder.do("LOCK.RELEASE", key), ":1")
	step(-time.Hour)
	eventually(t, 5*time.Second, "they count as dead soon", func() bool {
		most := rdb.ZRangeWithScores(t.Context(), queueKeys(key)[2], -1, -1).Val()
		return int64(most[0].Score) <= rdb.Time(t.Context()).Val().Add(2*fairTimeout).UnixMilli()
	})
	step(2 * fairTimeout)
	tokenOf(t, receive(t, reply, 5*time.Second))
	want(t, a.do("LOCK.RELEASE", key), ":1")
	wantNothingLeft(t, rdb, key)
}

// TestR22LiveWaitersKeepTheirOrder over steps of Redis's clock.
func TestR22LiveWaitersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]time.Duration{"an hour forward": time.Hour, "an hour back": -time.Hour, "by less than they count for": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			rdb, step := stepped(t)
			s, key := leash(t, rdb, Config{}), newKey()
			holder := connect(t, s)
			holder.token(key)
			const n = 5
			conns, replies := make([]*conn, n), make([]<-chan string, n)
			for i := range n {
				conns[i] = connect(t, s)
				replies[i] = conns[i].waitFair(rdb, i+1, key, "BLOCK", "0")
			}
			step(d)
			for i := range n {
				if i == 0 && d < time.Minute {
					want(t, holder.do("LOCK.RELEASE", key), ":1")
				}
				tokenOf(t, receive(t, replies[i], 5*time.Second))
				want(t, conns[i].do("LOCK.RELEASE", key), ":1")
			}
			wantNothingLeft(t, rdb, key)
		})
	}
}

// TestR25StepsOfTheClock: a hold goes on over steps of Redis's clock that leave it some time, and
// is as easily released after them. One that leaves it none ends it: another gets in, and its
// holder is told.
func TestR25StepsOfTheClock(t *testing.T) {
	const ttl = 9 * time.Second // after a renewal, a third of it passes until the next
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
			rdb, step := stepped(t)
			s := leash(t, rdb, Config{WatchdogTimeout: ttl})
			holders, keys := make(map[*mode]*conn), make(map[*mode]string)
			for _, m := range modes {
				holders[m], keys[m] = connect(t, s), newKey()
				holders[m].hold(keys[m], m.option, "OWNER", "me")
			}
			permits, holder := semaphore(t, s, 1), connect(t, s)
			permit := holder.permit(permits)
			for _, d := range row.steps {
				step(d)
				for _, m := range modes { // what is over is found to be so
					rdb.Exists(t.Context(), keys[m])
				}
				connect(t, s).do("SEM.ACQUIRE", permits)
			}
			renewed := s.watchdog.Stats.Renewals.Load()
			if row.lost {
				for _, m := range modes {
					want(t, receive(t, holders[m].losses, ttl/3+time.Second), keys[m]+" gone")
				}
				want(t, receive(t, holder.losses, ttl/3+time.Second), permits+" gone")
				return
			}
			eventually(t, 2*ttl, "all are renewed twice", func() bool { return s.watchdog.Stats.Renewals.Load() > renewed+int64(2*len(modes)+2) })
			for _, m := range modes {
				want(t, connect(t, s).do(append([]string{"LOCK.ACQUIRE", keys[m]}, alone(m)...)...), "$-1")
				want(t, holders[m].do("LOCK.RELEASE", keys[m], "OWNER", "me"), ":1")
				wantNothing(t, rdb, keys[m], holders[m])
			}
			want(t, connect(t, s).do("SEM.ACQUIRE", permits), "$-1")
			want(t, holder.do("SEM.RELEASE", permits, permit), ":1")
		})
	}
}

// TestR12ALeaseIsExtendedAfterAStepBack to before its grant: it is what it was, for the new time.
func TestR12ALeaseIsExtendedAfterAStepBack(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		for ms, back := range map[string]bool{"600": false, "5000": true, "20000": true} {
			t.Run(m.option+" to "+ms, func(t *testing.T) {
				rdb, step := stepped(t)
				s := leash(t, rdb, Config{})
				step(10 * time.Second)
				a, key := connect(t, s), newKey()
				token := strconv.FormatInt(a.hold(key, m.option, "LEASE", "30000"), 10)
				step(-10 * time.Second)
				want(t, a.do("LOCK.EXTEND", key, ms), ":"+ms)
				want(t, connect(t, s).do("LOCK.CHECK", key, "TOKEN", token), ":1")
				want(t, connect(t, s).do(append([]string{"LOCK.ACQUIRE", key}, alone(m)...)...), "$-1")
				if back {
					want(t, connect(t, s).do("LOCK.RELEASE", key, "TOKEN", token), ":1")
					wantNothing(t, rdb, key, a)
					return
				}
				// it ends by itself
				connect(t, s).token(append([]string{key, "BLOCK", "5000"}, alone(m)...)...)
			})
		}
	}
}

// TestR2GraceOverAStepBack: a clock that was set back to before the server was there begins no
// grace where one is over, and none that is longer than any other.
func TestR2GraceOverAStepBack(t *testing.T) {
	t.Parallel()
	for _, was := range []string{"master", "replica"} {
		t.Run(was, func(t *testing.T) {
			rdb, step := stepped(t)
			if was == "replica" {
				host, port, _ := strings.Cut(redistest.Start(t).Addr, ":")
				rdb.Do(t.Context(), "REPLICAOF", host, port)
				eventually(t, soon, "it is one", func() bool {
					return infoField(rdb.Info(t.Context(), "replication").Val(), "master_link_status") == "up"
				})
				rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE")
			}
			left := func(s *Service) time.Duration {
				if _, ok := s.graces.masterOf("", time.Now(), time.Now().Add(soon)); !ok {
					t.Error("the master does not answer")
				}
				_, left := s.graces.active()
				return left
			}
			const grace = time.Second
			cfg := Config{WatchdogTimeout: grace, FailoverGrace: grace}
			s := leash(t, rdb, cfg)
			eventually(t, soon, "the server is known not to be new", func() bool { return left(s) == 0 && s.graces.grantingMaster("") != "-" })
			step(-time.Hour)
			if left := left(s); left > 0 {
				t.Errorf("nothing is granted for %v", left)
			}
			if left := left(leash(t, rdb, cfg)); left <= 0 || left > grace+time.Second {
				t.Errorf("a new Leash, for whom that may have been just now, grants nothing for %v", left)
			}
			if left := left(s); left > 0 {
				t.Errorf("when another Leash has looked, nothing is granted for %v", left)
			}
		})
	}
}

// TestR2ALeaseIsPutBackWhereTheClockIsBehind that of the master which granted it.
func TestR2ALeaseIsPutBackWhereTheClockIsBehind(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.option, func(t *testing.T) {
			rdb, step := stepped(t)
			s := leash(t, rdb, graceConfig(), graceful)
			step(10 * time.Second)
			a, key := connect(t, s), newKey()
			token := strconv.FormatInt(a.hold(key, m.option, "LEASE", "5000"), 10)
			step(-10 * time.Second)
			defer s.graces.begin(t, key)()
			forget(t, rdb, key)
			s.watchdog.CheckAll()
			eventually(t, soon, "it is put back", func() bool { return rdb.PTTL(t.Context(), key).Val() > 0 })
			want(t, connect(t, s).do("LOCK.CHECK", key, "TOKEN", token), ":1")
			want(t, connect(t, s).do("LOCK.RELEASE", key, "TOKEN", token), ":1")
			wantNothing(t, rdb, key, a)
		})
	}
}

// TestR2ReleaseWhenRedisEndsTheGrace before Leash does, for its clock was set forward: nothing can
// be put right there, and nothing is waited for.
func TestR2ReleaseWhenRedisEndsTheGrace(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.option, func(t *testing.T) {
			rdb, step := stepped(t)
			s := leash(t, rdb, graceConfig(), graceful)
			a, lost, key := connect(t, s), connect(t, s), newKey()
			a.hold(key, m.option, "LEASE", "36000000")
			lost.hold(key+" lost", m.option)
			defer s.graces.begin(t, key)()
			step(2 * time.Hour)
			want(t, a.do("LOCK.RELEASE", key), ":1")
			wantNothing(t, rdb, key, a)
			s.watchdog.CheckAll()
			want(t, receive(t, lost.losses, soon), key+" lost gone")
			if masters, _ := s.graces.active(); masters != 1 {
				t.Error("the grace is over for who wants a lock")
			}
		})
	}
}

// TestR2WhatIsPutBackBeganBeforeNow though its token, which goes on from a clock that was ahead,
// says otherwise.
func TestR2WhatIsPutBackBeganBeforeNow(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.option, func(t *testing.T) {
			rdb, step := stepped(t)
			s, key := leash(t, rdb, graceConfig(), graceful), newKey()
			step(time.Hour)
			ahead := connect(t, s)
			ahead.hold(key, m.option)
			want(t, ahead.do("LOCK.RELEASE", key), ":1")
			step(-time.Hour)
			a := connect(t, s)
			a.hold(key, m.option)
			defer s.graces.begin(t, key)()
			forget(t, rdb, key)
			s.watchdog.CheckAll()
			eventually(t, soon, "it is put back", func() bool { return rdb.PTTL(t.Context(), key).Val() > 0 })
			r, ok := recordOf(t, rdb, a.carrier.last(func(*hold) bool { return true }))
			if now := rdb.Time(t.Context()).Val().UnixMilli(); !ok || r.since > now || r.since < now-60_000 {
				t.Errorf("it is said to have begun %d ms from now", r.since-now)
			}
		})
	}
}
