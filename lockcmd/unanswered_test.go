package lockcmd

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// Redis does not answer a request about a hold.

// TestR27UnansweredReleaseOfACountIsALoss: The holder of the remaining count is told of the loss,
// although Redis does not answer.
func TestR27UnansweredReleaseOfACountIsALoss(t *testing.T) {
	t.Parallel()
	s, _, p := faulty(t, Config{UpstreamTimeout: shortTimeout, WatchdogTimeout: 12 * time.Second})
	a, key := connect(t, s), newKey()
	a.token(key, "OWNER", "me")
	a.token(key, "OWNER", "me")
	p.Freeze()
	defer p.Thaw()
	want(t, a.do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	want(t, receive(t, a.losses, 12*time.Second), key+" silence")
}

func TestR26UnansweredReleaseOfACountKeepsTheRest(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	a, key := connect(t, s), newKey()
	a.token(key, "OWNER", "me")
	a.token(key, "OWNER", "me")
	fault := p.DropBefore(running(script.ReleaseScript, key), faultproxy.Always())
	want(t, a.do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	straight.Redis.Redis.PExpire(t.Context(), key, 10*time.Second)
	s.Watchdog.CheckAll()
	eventually(t, time.Second, "the rest is renewed", func() bool {
		return straight.Redis.Redis.PTTL(t.Context(), key).Val() > 15*time.Second
	})
	fault.Disarm()
	eventually(t, time.Second, "the release is repeated", func() bool {
		return count(straight.Redis.Redis, key, "me") == "1"
	})
	want(t, a.do("LOCK.RELEASE", key), ":1")

	a.token(key, "OWNER", "me")
	a.token(key, "OWNER", "me")
	fault = p.DropBefore(running(script.ReleaseScript, key), faultproxy.Always())
	renewals := p.DropBefore(running(script.RenewScript, key), faultproxy.Always())
	want(t, a.do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	straight.Redis.Redis.Del(t.Context(), key) // deleted without Leash
	fault.Disarm()
	want(t, receive(t, a.losses, time.Second), key+" gone")
	renewals.Disarm()
}

func TestR28EndWhileTheReleaseOfACountIsUnanswered(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout, WatchdogTimeout: 9 * time.Second})
	for _, how := range []Ending{Release, Expire} {
		a, key := connect(t, s), newKey()
		a.token(key, "OWNER", "me")
		a.token(key, "OWNER", "me")
		fault := p.DropBefore(running(script.ReleaseScript, key), faultproxy.Always())
		want(t, a.do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
		a.carrier.End(how)
		fault.Disarm()
		eventually(t, 2*time.Second, "the hold ends", func() bool { return !exists(t, straight.Redis.Redis, key) })
		eventually(t, time.Second, "the hold is dropped", func() bool {
			return s.Stats().Holds == 0 && !a.guarded.Load()
		})
		if len(a.losses) != 0 {
			t.Error("reported as a loss")
		}
	}
}

// TestR26ReleaseBehindAnUndo: Redis answers nothing. A release behind an undo of the same hold does
// nothing and says so. The client may repeat it.
func TestR26ReleaseBehindAnUndo(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	a, key := connect(t, s), newKey()
	a.token(key, "OWNER", "me")
	p.Freeze()
	want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.Unanswered)
	want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.Refused)
	want(t, a.do("LOCK.RELEASE", key), "-"+refusal.Refused)
	p.Thaw()
	eventually(t, 4*time.Second, "the undo and the release are done", func() bool {
		reply := a.do("LOCK.RELEASE", key)
		return reply == ":1" || reply == "-"+refusal.NotHeld
	})
	eventually(t, 3*time.Second, "the hold ends", func() bool { return !exists(t, straight.Redis.Redis, key) })
	eventually(t, time.Second, "the hold is dropped", func() bool { return a.carrier.Holds() == 0 })
	if len(a.losses) != 0 {
		t.Error("a release was reported as a loss")
	}
}

func TestR7ReleaseIsNumberedAboveAPendingUndo(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	for range 2 {
		a, key := connect(t, s), newKey()
		a.token(key, "OWNER", "me")
		fault := p.DropBefore(running(script.AcquireScript, key), faultproxy.Always())
		want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.Unanswered)
		fault.Disarm()
		a.carrier.End(Release)
		eventually(t, 2*time.Second, "the hold ends", func() bool { return !exists(t, straight.Redis.Redis, key) })
	}
}

func TestR7LateReleaseIsSentAgain(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{})
	a, key := connect(t, s), newKey()
	a.token(key, "OWNER", "me")
	late := p.HoldBefore(running(script.ReleaseScript, key))
	reply := a.start("LOCK.RELEASE", key)
	receive(t, late.Triggered(), time.Second)
	undo := script.UndoArgs{
		Lock: script.Lock{Key: key}, Mode: script.Plain, Owner: "me", Carrier: a.carrier.Name, Acquire: 1000,
		Number: a.carrier.Requests.Add(1),
	}
	if !straight.Redis.Undo(undo) {
		t.Fatal("the undo has no answer")
	}
	late.Release()
	want(t, receive(t, reply, time.Second), ":1")
	if exists(t, straight.Redis.Redis, key) {
		t.Error("the lock is still there")
	}
}

func TestR25ReleaseElsewhereIsNoLossWhileTheTombstoneIsUnreadable(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	a, b, key := connect(t, s), connect(t, straight), newKey()
	token := a.token(key)
	look := p.DropBefore(running(script.RenewScript, key), faultproxy.Always())
	get := p.DropBefore(faultproxy.Named("GET"), faultproxy.Always())
	want(t, b.do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(token, 10)), ":1")
	want(t, a.do("LOCK.RELEASE", key), "-"+refusal.Refused)
	look.Disarm()
	get.Disarm()
	s.RenewAll(t.Context())
	eventually(t, time.Second, "the hold is dropped", func() bool { return a.carrier.Holds() == 0 })
	if len(a.losses) != 0 {
		t.Errorf("a release was reported as a loss: %s", <-a.losses)
	}
}

func TestR5HoldBeingReleasedIsNoDeadlock(t *testing.T) {
	t.Parallel()
	s, _, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	a, key := connect(t, s), newKey()
	a.token(key)
	fault := p.DropBefore(running(script.ReleaseScript, key), faultproxy.Always())
	want(t, a.do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	reply := a.await(s, 1, key, "BLOCK", "0")
	fault.Disarm()
	tokenOf(t, receive(t, reply, 5*time.Second))
}

func TestR3LeaseOverBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	s, _, p := faulty(t, Config{})
	a := connect(t, s)
	a.token(newKey())
	p.Delay(10 * time.Millisecond)
	want(t, a.do("LOCK.ACQUIRE", newKey(), "LEASE", "5"), "-"+refusal.TooLate)
}

// TestR26LateCopyOfAReleasedGrantIsReleased: A client disconnects before it learns of its grant,
// which is released. A late copy of the acquire grants the lock again. That grant is released too.
func TestR26LateCopyOfAReleasedGrantIsReleased(t *testing.T) {
	t.Parallel()
	takesLong(t)
	s, straight, p := faulty(t, Config{})
	a, key := connect(t, s), newKey()
	late := p.HoldBefore(running(script.AcquireScript, key))
	reply := a.start("LOCK.ACQUIRE", key, "LEASE", "8000")
	<-late.Triggered()
	a.gone()
	want(t, receive(t, reply, soon), "-"+refusal.Gone)
	given := time.Now()
	exists := func() bool { return straight.Redis.Redis.Exists(t.Context(), key).Val() == 1 }
	eventually(t, soon, "it is released", func() bool { return !exists() })
	time.Sleep(time.Until(given.Add(6 * time.Second)))
	late.Release()
	eventually(t, soon, "the copy has come", exists)
	ends := time.Now().Add(straight.Redis.Redis.PTTL(t.Context(), key).Val())
	eventually(t, soon, "it is released", func() bool { return !exists() })
	if left := time.Until(ends); left < time.Second {
		t.Errorf("the copy ran out by itself")
	}
}

// TestR28HoldMovedToADisconnectedClientStays: A client repeats an acquire that got no answer, and
// disconnects. The hold has moved to that connection. It stays, because an earlier acquire of it
// was answered.
func TestR28HoldMovedToADisconnectedClientStays(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		for _, ended := range []bool{false, true} {
			s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
			a, b := connect(t, s), connect(t, other)
			token := a.token(key, "OWNER", "me", "LEASE", "60000")
			a.token(key, "OWNER", "me", "LEASE", "60000", "ID", "x")
			b.gone()
			if ended {
				b.carrier.End(Expire)
			}
			want(t, b.do("LOCK.ACQUIRE", key, "OWNER", "me", "LEASE", "60000", "ID", "x"), "-"+refusal.Gone)
			if !ended {
				eventually(t, soon, "the one acquire is undone", func() bool {
					return inRedis(t, rdb, key)["me"] == "1"
				})
				b.carrier.End(Expire)
			}
			eventually(t, soon, "its first connection knows", func() bool { return s.Stats().Holds == 0 })
			info, err := other.Redis.Inspect(script.Lock{DB: 0, Key: key}, other.deadline())
			if f, ok := info.Find(token); err != nil || !ok || info.Left < 50*time.Second {
				t.Errorf("ended: %v, got %+v, %v", ended, f, err)
			}
		}
	})
}
