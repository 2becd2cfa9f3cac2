package release_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// Redis does not answer a request about a hold.

// TestR27UnansweredReleaseOfACountIsALoss: The holder of the remaining count is told of the loss,
// although Redis does not answer.
func TestR27UnansweredReleaseOfACountIsALoss(t *testing.T) {
	t.Parallel()
	s, _, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout,
		WatchdogTimeout: 12 * time.Second})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	a.Token(key, "OWNER", "me")
	a.Token(key, "OWNER", "me")
	p.Freeze()
	defer p.Thaw()
	locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	locktest.Want(t, locktest.Receive(t, a.Losses, 12*time.Second), key+" silence")
}

func TestR26UnansweredReleaseOfACountKeepsTheRest(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	a.Token(key, "OWNER", "me")
	a.Token(key, "OWNER", "me")
	fault := p.DropBefore(locktest.Running(script.ReleaseScript, key), faultproxy.Always())
	locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	locktest.RedisOf(straight).PExpire(t.Context(), key, 10*time.Second)
	s.Watchdog.CheckAll()
	locktest.Eventually(t, time.Second, "the rest is renewed", func() bool {
		return locktest.RedisOf(straight).PTTL(t.Context(), key).Val() > 15*time.Second
	})
	fault.Disarm()
	locktest.Eventually(t, time.Second, "the release is repeated", func() bool {
		return locktest.Count(locktest.RedisOf(straight), key, "me") == "1"
	})
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")

	a.Token(key, "OWNER", "me")
	a.Token(key, "OWNER", "me")
	fault = p.DropBefore(locktest.Running(script.ReleaseScript, key), faultproxy.Always())
	renewals := p.DropBefore(locktest.Running(script.RenewScript, key), faultproxy.Always())
	locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	locktest.RedisOf(straight).Del(t.Context(), key) // deleted without Leash
	fault.Disarm()
	locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" gone")
	renewals.Disarm()
}

func TestR28EndWhileTheReleaseOfACountIsUnanswered(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout,
		WatchdogTimeout: 9 * time.Second})
	for _, how := range []lockcmd.Ending{lockcmd.Release, lockcmd.Expire} {
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(key, "OWNER", "me")
		a.Token(key, "OWNER", "me")
		fault := p.DropBefore(locktest.Running(script.ReleaseScript, key), faultproxy.Always())
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
		a.Carrier.End(how)
		fault.Disarm()
		locktest.Eventually(t, 2*time.Second, "the hold ends",
			func() bool { return !locktest.Exists(t, locktest.RedisOf(straight), key) })
		locktest.Eventually(t, time.Second, "the hold is dropped", func() bool {
			return s.Stats().Holds == 0 && !a.Guarded.Load()
		})
		if len(a.Losses) != 0 {
			t.Error("reported as a loss")
		}
	}
}

// TestR26ReleaseBehindAnUndo: Redis answers nothing. A release behind an undo of the same hold does
// nothing and says so. The client may repeat it.
func TestR26ReleaseBehindAnUndo(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	a.Token(key, "OWNER", "me")
	p.Freeze()
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.Unanswered)
	locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.NotAccepted)
	locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotAccepted)
	p.Thaw()
	locktest.Eventually(t, 4*time.Second, "the undo and the release are done", func() bool {
		reply := a.Do("LOCK.RELEASE", key)
		return reply == ":1" || reply == "-"+refusal.NotHeld
	})
	locktest.Eventually(t, 3*time.Second, "the hold ends",
		func() bool { return !locktest.Exists(t, locktest.RedisOf(straight), key) })
	locktest.Eventually(t, time.Second, "the hold is dropped", func() bool { return a.Carrier.Holds() == 0 })
	if len(a.Losses) != 0 {
		t.Error("a release was reported as a loss")
	}
}

func TestR7ReleaseIsNumberedAboveAPendingUndo(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	for range 2 {
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(key, "OWNER", "me")
		fault := p.DropBefore(locktest.Running(script.AcquireScript, key), faultproxy.Always())
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.Unanswered)
		fault.Disarm()
		a.Carrier.End(lockcmd.Release)
		locktest.Eventually(t, 2*time.Second, "the hold ends",
			func() bool { return !locktest.Exists(t, locktest.RedisOf(straight), key) })
	}
}

func TestR7LateReleaseIsSentAgain(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	a.Token(key, "OWNER", "me")
	late := p.HoldBefore(locktest.Running(script.ReleaseScript, key))
	reply := a.Start("LOCK.RELEASE", key)
	locktest.Receive(t, late.Triggered(), time.Second)
	undo := script.UndoArgs{
		Lock: script.Lock{Key: key}, Mode: script.Plain, Owner: "me", Carrier: a.Carrier.Name, Acquire: 1000,
		Number: a.Carrier.Requests.Add(1),
	}
	if !straight.Redis.Undo(undo) {
		t.Fatal("the undo has no answer")
	}
	late.Release()
	locktest.Want(t, locktest.Receive(t, reply, time.Second), ":1")
	if locktest.Exists(t, locktest.RedisOf(straight), key) {
		t.Error("the lock is still there")
	}
}

func TestR25ReleaseElsewhereIsNoLossWhileTheTombstoneIsUnreadable(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, straight), locktest.NewKey()
	token := a.Token(key)
	look := p.DropBefore(locktest.Running(script.RenewScript, key), faultproxy.Always())
	get := p.DropBefore(faultproxy.Named("GET"), faultproxy.Always())
	locktest.Want(t, b.Do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotAccepted)
	look.Disarm()
	get.Disarm()
	s.RenewAll(t.Context())
	locktest.Eventually(t, time.Second, "the hold is dropped", func() bool { return a.Carrier.Holds() == 0 })
	if len(a.Losses) != 0 {
		t.Errorf("a release was reported as a loss: %s", <-a.Losses)
	}
}

func TestR5HoldBeingReleasedIsNoDeadlock(t *testing.T) {
	t.Parallel()
	s, _, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	a.Token(key)
	fault := p.DropBefore(locktest.Running(script.ReleaseScript, key), faultproxy.Always())
	locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	reply := a.Await(s, 1, key, "BLOCK", "0")
	fault.Disarm()
	locktest.TokenOf(t, locktest.Receive(t, reply, 5*time.Second))
}

func TestR3LeaseOverBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	s, _, p := locktest.StartFaulty(t, lockcmd.Config{})
	a := locktest.Connect(t, s)
	a.Token(locktest.NewKey())
	p.Delay(10 * time.Millisecond)
	locktest.Want(t, a.Do("LOCK.ACQUIRE", locktest.NewKey(), "LEASE", "5"), "-"+refusal.TooLate)
}

// TestR26LateCopyOfAReleasedGrantIsReleased: A client disconnects before it learns of its grant,
// which is released. A late copy of the acquire grants the lock again. That grant is released too.
func TestR26LateCopyOfAReleasedGrantIsReleased(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	late := p.HoldBefore(locktest.Running(script.AcquireScript, key))
	reply := a.Start("LOCK.ACQUIRE", key, "LEASE", "8000")
	<-late.Triggered()
	a.Gone()
	locktest.Want(t, locktest.Receive(t, reply, locktest.Soon), "-"+refusal.Gone)
	given := time.Now()
	exists := func() bool { return locktest.RedisOf(straight).Exists(t.Context(), key).Val() == 1 }
	locktest.Eventually(t, locktest.Soon, "it is released", func() bool { return !exists() })
	time.Sleep(time.Until(given.Add(6 * time.Second)))
	late.Release()
	locktest.Eventually(t, locktest.Soon, "the copy has come", exists)
	ends := time.Now().Add(locktest.RedisOf(straight).PTTL(t.Context(), key).Val())
	locktest.Eventually(t, locktest.Soon, "it is released", func() bool { return !exists() })
	if left := time.Until(ends); left < time.Second {
		t.Errorf("the copy ran out by itself")
	}
}

// TestR28HoldMovedToADisconnectedClientStays: A client repeats an acquire that got no answer, and
// disconnects. The hold has moved to that connection. It stays, because an earlier acquire of it
// was answered.
func TestR28HoldMovedToADisconnectedClientStays(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, ended := range []bool{false, true} {
			s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
				locktest.NewKey()
			a, b := locktest.Connect(t, s), locktest.Connect(t, other)
			token := a.Token(key, "OWNER", "me", "LEASE", "60000")
			a.Token(key, "OWNER", "me", "LEASE", "60000", "ID", "x")
			b.Gone()
			if ended {
				b.Carrier.End(lockcmd.Expire)
			}
			locktest.Want(t, b.Do("LOCK.ACQUIRE", key, "OWNER", "me", "LEASE", "60000", "ID", "x"), "-"+refusal.Gone)
			if !ended {
				locktest.Eventually(t, locktest.Soon, "the one acquire is undone", func() bool {
					return locktest.InRedis(t, rdb, key)["me"] == "1"
				})
				b.Carrier.End(lockcmd.Expire)
			}
			locktest.Eventually(t, locktest.Soon, "its first connection knows",
				func() bool { return s.Stats().Holds == 0 })
			info, err := other.Redis.Inspect(script.Lock{DB: 0, Key: key}, other.Redis.Deadline())
			if f, ok := info.Find(token); err != nil || !ok || info.Left < 50*time.Second {
				t.Errorf("ended: %v, got %+v, %v", ended, f, err)
			}
		}
	})
}

// TestR28SilentNodeDelaysNoOtherReleases: A connection has many locks on a node that does not
// answer, and one lock on another node. That one is released at once.
func TestR28SilentNodeDelaysNoOtherReleases(t *testing.T) {
	t.Parallel()
	// the stopped node must stay a master
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{NodeTimeout: time.Minute})
	s := locktest.Start(t, locktest.DialCluster(t, cluster.Addrs()...),
		lockcmd.Config{WatchdogTimeout: 10 * time.Minute})
	stopped, answers := cluster.MasterOf(8000), cluster.MasterOf(0).Client()
	for what, release := range map[string]func(a *locktest.Client, keys []string){
		"the end of the connection": func(a *locktest.Client, _ []string) { a.Carrier.End(lockcmd.Release) },
		"LOCK.MRELEASE": func(a *locktest.Client, keys []string) {
			a.Start(locktest.Several("LOCK.MRELEASE", keys)...)
		},
	} {
		a, last := locktest.Connect(t, s), redistest.KeyIn(0, locktest.NewKey())
		var keys []string
		for range 40 {
			keys = append(keys, redistest.KeyIn(8000, locktest.NewKey()))
		}
		keys = append(keys, last)
		for _, key := range keys {
			a.Token(key)
		}
		if err := stopped.Pause(); err != nil {
			t.Fatal(err)
		}
		release(a, keys)
		locktest.Eventually(t, locktest.Soon, what+" releases the lock on the node that answers",
			func() bool { return answers.Exists(t.Context(), last).Val() == 0 })
		if err := stopped.Resume(); err != nil {
			t.Fatal(err)
		}
		locktest.Eventually(t, locktest.Soon, what+" releases the others", func() bool { return a.Carrier.Holds() == 0 })
	}
}
