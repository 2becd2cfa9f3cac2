package event_test

import (
	"context"
	"strconv"
	"strings"
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
	"leash/lockcmd/script/transport"
)

func TestR27OnLossErrorAnswersTheNextCommandOnce(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		for _, next := range []string{
			"LOCK.ACQUIRE %", "lock.acquire % NONSENSE", "LOCK.RELEASE %", "LOCK.TTL %", "LOCK.INFO %",
			"LOCK.EXTEND % 5", "LOCK.CHECK % TOKEN 5",
			"LOCK.ATTACH % OWNER me TOKEN 5",
		} {
			a, key, kept := locktest.Connect(t, s), locktest.NewKey(), locktest.NewKey()
			a.Token(key, "OWNER", "me", "ONLOSS", "ERROR")
			a.Token(kept, "ONLOSS", "ERROR")
			rdb.Del(ctx, key)
			s.RenewAll(ctx)
			locktest.Eventually(t, 2*time.Second, "the loss is found", func() bool { return a.Carrier.Holds() == 1 })
			locktest.Want(t, a.Do("LOCK.ACQUIRE", kept), "$-1") // another key
			locktest.Want(t, locktest.Connect(t, s).Do("LOCK.TTL", key), ":-2")
			command := strings.Fields(strings.ReplaceAll(next, "%", key))
			locktest.Want(t, a.Do(command...), "-"+locktest.MsgLost(key, "gone"))
			locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
			if len(a.Losses) != 0 {
				t.Fatal("the connection was closed")
			}
			a.Token(key, "ONLOSS", "ERROR")
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			locktest.Want(t, a.Do("LOCK.RELEASE", kept), ":1")
		}
		if n := s.Stats().Losses["gone"]; n != 8 {
			t.Errorf("got %d losses counted, want 8", n)
		}
	})
}

func TestR27OnLossErrorIsReportedOnceByTheCommandThatFindsIt(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		for _, finds := range []string{"LOCK.RELEASE %", "LOCK.ACQUIRE % OWNER me", "LOCK.ATTACH % OWNER me TOKEN "} {
			a, key := locktest.Connect(t, s), locktest.NewKey()
			token := a.Token(key, "OWNER", "me", "ONLOSS", "ERROR")
			rdb.Del(ctx, key)
			if strings.HasSuffix(finds, " ") {
				finds += strconv.FormatInt(token, 10)
			}
			locktest.Want(t, a.Do(strings.Fields(strings.ReplaceAll(finds, "%", key))...),
				"-"+locktest.MsgLost(key, "gone"))
			locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)

			token = a.Token(key, "ONLOSS", "ERROR")
			rdb.Del(ctx, key) // Another connection finds the loss. The holder must still be told.
			locktest.Want(t, locktest.Connect(t, s).Do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(token, 10)),
				"-"+locktest.MsgLost(key, "gone"))
			locktest.Want(t, a.Do("LOCK.TTL", key), "-"+locktest.MsgLost(key, "gone"))
			locktest.Want(t, a.Do("LOCK.TTL", key), ":-2")
			if len(a.Losses) != 0 {
				t.Fatal("the connection was closed")
			}
		}
	})
}

func TestR27OnLossErrorWithoutRoomCloses(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	a := locktest.Connect(t, s)
	const most = 1024
	for i := range most + 1 {
		h := a.HoldAs(t, hold.Grant{
			Key: strconv.Itoa(i), Mode: script.Plain, Token: 1, TTL: time.Hour,
			Terms: script.Terms{Flags: script.Flags{ErrorOnLoss: true}},
		}, time.Now().Add(time.Hour))
		h.Lost("silence")
		if (len(a.Losses) > 0) != (i == most) {
			t.Fatalf("after %d losses: %d told by closing", i+1, len(a.Losses))
		}
	}
}

func TestR27OnLossErrorReportsSilenceInTime(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{WatchdogTimeout: 6 * time.Second})
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, straight), locktest.NewKey()
	a.Token(key, "ONLOSS", "ERROR")
	reply := b.Await(straight, 1, key, "BLOCK", "0")
	p.Freeze()
	defer p.Thaw()
	locktest.TokenOf(t, locktest.Receive(t, reply, 3*time.Second))
	locktest.Want(t, a.Do("LOCK.TTL", key), "-"+locktest.MsgLost(key, "silence"))
	locktest.Want(t, a.Do("LOCK.TTL", key), ":-2")
}

func TestR28MaxHoldIsReportedThenReleased(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		tests := make(map[string]func(*testing.T))
		for _, how := range []string{"CLOSE", "ERROR"} {
			for _, lease := range []string{"-1", "20000"} {
				tests[how+lease] = func(t *testing.T) { maxHoldIsToldThenReleased(t, s, how, lease) }
			}
		}
		locktest.RunParallel(t, tests)
		if n := s.Stats().Losses[hold.ReasonMaxHold]; n != 4 {
			t.Errorf("got %d losses counted, want 4", n)
		}
	})
}

func maxHoldIsToldThenReleased(t *testing.T, s *lockcmd.Service, how, lease string) {
	a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
	began := time.Now()
	a.Token(key, "OWNER", "me", "MAXHOLD", "5000", "ONLOSS", how, "LEASE", lease)
	<-time.After(100 * time.Millisecond)
	a.Token(key, "OWNER", "me", "MAXHOLD", "60000", "LEASE", lease) // this does not lengthen MAXHOLD
	b.Token(key, "BLOCK", "50000")
	if took := time.Since(began); took < 4990*time.Millisecond || took > locktest.Soon {
		t.Errorf("held for %v, want 5 s", took)
	}
	if how == "CLOSE" {
		if len(a.Losses) != 1 {
			t.Fatal("another has the lock, and its holder was not told")
		}
		locktest.Want(t, <-a.Losses, key+" maxhold")
	} else {
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+locktest.MsgLost(key, "maxhold"))
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
	locktest.Eventually(t, time.Second, "the hold is dropped", func() bool {
		return a.Carrier.Holds() == 0 && !a.Guarded.Load()
	})
	locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
	if len(a.Losses) != 0 {
		t.Error("told twice")
	}
}

func TestR28MaxHoldOfTheLeash(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr),
		lockcmd.Config{MaxHold: 4 * time.Second})
	for _, options := range [][]string{nil, {"MAXHOLD", "60000"}} {
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(append([]string{key}, options...)...)
		locktest.Want(t, locktest.Receive(t, a.Losses, 3*time.Second), key+" maxhold")
	}
	for _, limit := range []time.Duration{time.Minute, 0} {
		s.Change(lockcmd.Config{MaxHold: limit})
		a := locktest.Connect(t, s)
		a.Token(locktest.NewKey())
		if got := a.Oldest().Details().Terms.MaxHold; got != limit {
			t.Errorf("after the change to %v the limit is %v", limit, got)
		}
	}
	s = locktest.Start(t, locktest.RedisOf(s), lockcmd.Config{MaxHold: time.Hour})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	a.Token(key, "MAXHOLD", "4000")
	locktest.Want(t, locktest.Receive(t, a.Losses, 2*time.Second), key+" maxhold")
	a.Token(key, "BLOCK", "30000", "MAXHOLD", "4000")
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
	<-time.After(4100 * time.Millisecond)
	if len(a.Losses) != 0 {
		t.Error("a released hold was reported as lost")
	}
}

func TestR28MaxHoldMovesWithTheHold(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		first, kill := locktest.StartKillable(t, rdb, lockcmd.Config{})
		second, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, first), locktest.Connect(t, second)
		began := time.Now()
		token := a.Token(key, "OWNER", "me", "MAXHOLD", "6000", "ONLOSS", "ERROR", "ONCLOSE", "EXPIRE")
		<-time.After(500 * time.Millisecond)
		kill()
		b.Attach(key, "me", token)
		locktest.Eventually(t, 5*time.Second, "it is ended", func() bool { return !locktest.Exists(t, rdb, key) })
		if took := time.Since(began); took < 5900*time.Millisecond || took > locktest.Soon {
			t.Errorf("held for %v, want 6 s", took)
		}
		locktest.Want(t, b.Do("LOCK.TTL", key), "-"+locktest.MsgLost(key, "maxhold"))
		if len(b.Losses) != 0 {
			t.Error("the connection was closed")
		}
	})
}

func TestR28MaxHoldWhileARequestIsUnanswered(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(*testing.T))
	for name, what := range map[string]*transport.Script{"release": script.ReleaseScript,
		"acquire": script.AcquireScript} {
		for _, ran := range []bool{true, false} {
			tests[name+" "+strconv.FormatBool(ran)] = func(t *testing.T) {
				maxHoldWhileARequestIsUnanswered(t, what,
					ran)
			}
		}
	}
	locktest.RunParallel(t, tests)
}

func maxHoldWhileARequestIsUnanswered(t *testing.T, what *transport.Script, ran bool) {
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	for range 3 {
		a.Token(key, "OWNER", "me", "MAXHOLD", "8000")
	}
	fault := locktest.Drop(p, ran)(locktest.Running(what, key), faultproxy.Always())
	if what == script.ReleaseScript {
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	} else {
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.Unanswered)
	}
	locktest.Want(t, locktest.Receive(t, a.Losses, 5*time.Second), key+" maxhold")
	if !locktest.Exists(t, locktest.RedisOf(straight), key) && what == script.ReleaseScript {
		t.Error("released before the loss was reported")
	}
	fault.Disarm()
	locktest.Eventually(t, 3*time.Second, "it is ended",
		func() bool { return !locktest.Exists(t, locktest.RedisOf(straight), key) })
	locktest.Eventually(t, 3*time.Second, "the hold is dropped", func() bool {
		return a.Carrier.Holds() == 0 && s.Stats().Holds == 0
	})
	if len(a.Losses) != 0 {
		t.Error("told twice")
	}
}

func TestR28MaxHoldEndsALeaseWithoutACarrier(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		began := time.Now()
		token := a.Token(key, "OWNER", "me", "LEASE", "60000", "MAXHOLD", "6000")
		a.Token(key, "OWNER", "me", "LEASE", "60000")
		a.Carrier.End(lockcmd.Release) // the lease stays
		reply := b.Do("LOCK.EXTEND", key, "60000", "TOKEN", strconv.FormatInt(token, 10))
		if left, err := strconv.Atoi(reply[1:]); err != nil || left > 8000 {
			t.Errorf("EXTEND: got %q, want no more than MAXHOLD leaves", reply)
		}
		b.Token(key, "BLOCK", "30000")
		if took := time.Since(began); took < 6*time.Second || took > locktest.Soon {
			t.Errorf("held for %v", took)
		}
	})
}

// TestR27OnLossErrorReportsToEachOwner: Each owner on a connection is told of the loss of its own
// hold, and commands about other holds succeed.
func TestR27OnLossErrorReportsToEachOwner(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		a, key := locktest.Connect(t, s), locktest.NewKey()
		for _, owner := range []string{"one", "two", "three"} {
			a.Token(key, "READ", "OWNER", owner, "ONLOSS", "ERROR")
		}
		if err := rdb.HDel(ctx, key, "one", "two").Err(); err != nil {
			t.Fatal(err)
		}
		s.RenewAll(ctx)
		locktest.Eventually(t, 2*time.Second, "the losses are found", func() bool { return a.Carrier.Holds() == 1 })
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "READ", "OWNER", "three"), ":1")
		locktest.Want(t, a.Do("LOCK.ACQUIRE", key, "READ", "OWNER", "two"), "-"+locktest.MsgLost(key, "gone"))
		a.Token(key, "READ", "OWNER", "two") // a new hold
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "two"), ":1")
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "one"), "-"+locktest.MsgLost(key, "gone"))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		locktest.WantNothing(t, rdb, key, a)
	})
}

// TestR27OnLossErrorOfOneOfSeveral: One key of a MACQUIRE is lost. The other keys are released,
// whichever command finds the loss.
func TestR27OnLossErrorOfOneOfSeveral(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		for _, found := range []bool{false, true} {
			a, keys := locktest.Connect(t, s), []string{locktest.NewKey(), locktest.NewKey(), locktest.NewKey()}
			locktest.WantPrefix(t, a.Do("LOCK.MACQUIRE", "3", keys[0], keys[1], keys[2], "ONLOSS", "ERROR"), "*3")
			rdb.Del(t.Context(), keys[1])
			if found {
				s.RenewAll(t.Context())
				locktest.Eventually(t, locktest.Soon, "the loss is found",
					func() bool { return a.Carrier.Holds() == 2 })
			}
			locktest.Want(t, a.Do("LOCK.MRELEASE", "3", keys[0], keys[1], keys[2]),
				"-"+locktest.MsgLost(keys[1], "gone"))
			locktest.Want(t, a.Do("LOCK.MRELEASE", "3", keys[0], keys[1], keys[2]), ":0")
			for _, key := range keys {
				locktest.WantNothing(t, rdb, key, a)
			}
		}
	})
}

func TestR27OnLossErrorAndAnotherHold(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := locktest.Start(t, rdb, lockcmd.Config{}), context.Background()
		a, key := locktest.Connect(t, s), locktest.NewKey()
		lost := a.Token(key, "READ", "OWNER", "one", "ONLOSS", "ERROR")
		lives := a.Token(key, "READ", "OWNER", "two", "ONLOSS", "ERROR")
		if err := rdb.HDel(ctx, key, "one").Err(); err != nil {
			t.Fatal(err)
		}
		s.RenewAll(ctx)
		locktest.Eventually(t, 2*time.Second, "the loss is found", func() bool { return a.Carrier.Holds() == 1 })
		if left := a.Do("LOCK.TTL", key, "TOKEN", strconv.FormatInt(lives, 10)); left[0] != ':' || left == ":-2" {
			t.Errorf("got TTL %s of the hold that lives", left)
		}
		locktest.Want(t, a.Do("LOCK.MRELEASE", "1", key, "TOKENS", strconv.FormatInt(lives, 10)), ":1")
		locktest.Want(t, a.Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(lost, 10)),
			"-"+locktest.MsgLost(key, "gone"))
		locktest.Want(t, a.Do("LOCK.TTL", key), ":-2")
		locktest.WantNothing(t, rdb, key, a)
	})
}
