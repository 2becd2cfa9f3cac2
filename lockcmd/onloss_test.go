package lockcmd

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

func TestR27OnLossErrorAnswersTheNextCommandOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		for _, next := range []string{
			"LOCK.ACQUIRE %", "lock.acquire % NONSENSE", "LOCK.RELEASE %", "LOCK.TTL %", "LOCK.INFO %",
			"LOCK.EXTEND % 5", "LOCK.CHECK % TOKEN 5",
			"LOCK.ATTACH % OWNER me TOKEN 5",
		} {
			a, key, kept := connect(t, s), newKey(), newKey()
			a.token(key, "OWNER", "me", "ONLOSS", "ERROR")
			a.token(kept, "ONLOSS", "ERROR")
			rdb.Del(ctx, key)
			s.RenewAll(ctx)
			eventually(t, 2*time.Second, "the loss is found", func() bool { return a.carrier.Holds() == 1 })
			want(t, a.do("LOCK.ACQUIRE", kept), "$-1") // another key
			want(t, connect(t, s).do("LOCK.TTL", key), ":-2")
			command := strings.Fields(strings.ReplaceAll(next, "%", key))
			want(t, a.do(command...), "-"+msgLost(key, "gone"))
			want(t, a.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
			if len(a.losses) != 0 {
				t.Fatal("the connection was closed")
			}
			a.token(key, "ONLOSS", "ERROR")
			want(t, a.do("LOCK.RELEASE", key), ":1")
			want(t, a.do("LOCK.RELEASE", kept), ":1")
		}
		if n := s.Stats().Losses["gone"]; n != 8 {
			t.Errorf("got %d losses counted, want 8", n)
		}
	})
}

func TestR27OnLossErrorIsReportedOnceByTheCommandThatFindsIt(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		for _, finds := range []string{"LOCK.RELEASE %", "LOCK.ACQUIRE % OWNER me", "LOCK.ATTACH % OWNER me TOKEN "} {
			a, key := connect(t, s), newKey()
			token := a.token(key, "OWNER", "me", "ONLOSS", "ERROR")
			rdb.Del(ctx, key)
			if strings.HasSuffix(finds, " ") {
				finds += strconv.FormatInt(token, 10)
			}
			want(t, a.do(strings.Fields(strings.ReplaceAll(finds, "%", key))...), "-"+msgLost(key, "gone"))
			want(t, a.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)

			token = a.token(key, "ONLOSS", "ERROR")
			rdb.Del(ctx, key) // Another connection finds the loss. The holder must still be told.
			want(t, connect(t, s).do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(token, 10)),
				"-"+msgLost(key, "gone"))
			want(t, a.do("LOCK.TTL", key), "-"+msgLost(key, "gone"))
			want(t, a.do("LOCK.TTL", key), ":-2")
			if len(a.losses) != 0 {
				t.Fatal("the connection was closed")
			}
		}
	})
}

func TestR27OnLossErrorWithoutRoomCloses(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a := connect(t, s)
	const most = 1024
	for i := range most + 1 {
		h := a.carrier.holdAs(t, hold.Grant{
			Key: strconv.Itoa(i), Mode: script.Plain, Token: 1, TTL: time.Hour,
			Terms: script.Terms{Flags: script.Flags{ErrorOnLoss: true}},
		}, time.Now().Add(time.Hour))
		h.Lost("silence")
		if (len(a.losses) > 0) != (i == most) {
			t.Fatalf("after %d losses: %d told by closing", i+1, len(a.losses))
		}
	}
}

func TestR27OnLossErrorReportsSilenceInTime(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{WatchdogTimeout: 6 * time.Second})
	a, b, key := connect(t, s), connect(t, straight), newKey()
	a.token(key, "ONLOSS", "ERROR")
	reply := b.await(straight, 1, key, "BLOCK", "0")
	p.Freeze()
	defer p.Thaw()
	tokenOf(t, receive(t, reply, 3*time.Second))
	want(t, a.do("LOCK.TTL", key), "-"+msgLost(key, "silence"))
	want(t, a.do("LOCK.TTL", key), ":-2")
}

func TestR28MaxHoldIsReportedThenReleased(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		tests := make(map[string]func(*testing.T))
		for _, how := range []string{"CLOSE", "ERROR"} {
			for _, lease := range []string{"-1", "20000"} {
				tests[how+lease] = func(t *testing.T) { maxHoldIsToldThenReleased(t, s, how, lease) }
			}
		}
		runParallel(t, tests)
		if n := s.Stats().Losses[hold.ReasonMaxHold]; n != 4 {
			t.Errorf("got %d losses counted, want 4", n)
		}
	})
}

func maxHoldIsToldThenReleased(t *testing.T, s *Service, how, lease string) {
	a, b, key := connect(t, s), connect(t, s), newKey()
	began := time.Now()
	a.token(key, "OWNER", "me", "MAXHOLD", "5000", "ONLOSS", how, "LEASE", lease)
	<-time.After(100 * time.Millisecond)
	a.token(key, "OWNER", "me", "MAXHOLD", "60000", "LEASE", lease) // this does not lengthen MAXHOLD
	b.token(key, "BLOCK", "50000")
	if took := time.Since(began); took < 4990*time.Millisecond || took > soon {
		t.Errorf("held for %v, want 5 s", took)
	}
	if how == "CLOSE" {
		if len(a.losses) != 1 {
			t.Fatal("another has the lock, and its holder was not told")
		}
		want(t, <-a.losses, key+" maxhold")
	} else {
		want(t, a.do("LOCK.RELEASE", key), "-"+msgLost(key, "maxhold"))
	}
	want(t, a.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
	eventually(t, time.Second, "the hold is dropped", func() bool {
		return a.carrier.Holds() == 0 && !a.guarded.Load()
	})
	want(t, b.do("LOCK.RELEASE", key), ":1")
	if len(a.losses) != 0 {
		t.Error("told twice")
	}
}

func TestR28MaxHoldOfTheLeash(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{MaxHold: 4 * time.Second})
	for _, options := range [][]string{nil, {"MAXHOLD", "60000"}} {
		a, key := connect(t, s), newKey()
		a.token(append([]string{key}, options...)...)
		want(t, receive(t, a.losses, 3*time.Second), key+" maxhold")
	}
	for _, limit := range []time.Duration{time.Minute, 0} {
		s.Change(Config{MaxHold: limit})
		a := connect(t, s)
		a.token(newKey())
		if got := a.carrier.oldest().Details().Terms.MaxHold; got != limit {
			t.Errorf("after the change to %v the limit is %v", limit, got)
		}
	}
	s = leash(t, s.Redis.Redis, Config{MaxHold: time.Hour})
	a, key := connect(t, s), newKey()
	a.token(key, "MAXHOLD", "4000")
	want(t, receive(t, a.losses, 2*time.Second), key+" maxhold")
	a.token(key, "BLOCK", "30000", "MAXHOLD", "4000")
	want(t, a.do("LOCK.RELEASE", key), ":1")
	<-time.After(4100 * time.Millisecond)
	if len(a.losses) != 0 {
		t.Error("a released hold was reported as lost")
	}
}

func TestR28MaxHoldMovesWithTheHold(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		first, kill := killableLeash(t, rdb, Config{})
		second, key := leash(t, rdb, Config{}), newKey()
		a, b := connect(t, first), connect(t, second)
		began := time.Now()
		token := a.token(key, "OWNER", "me", "MAXHOLD", "6000", "ONLOSS", "ERROR", "ONCLOSE", "EXPIRE")
		<-time.After(500 * time.Millisecond)
		kill()
		b.attach(key, "me", token)
		eventually(t, 5*time.Second, "it is ended", func() bool { return !exists(t, rdb, key) })
		if took := time.Since(began); took < 5900*time.Millisecond || took > soon {
			t.Errorf("held for %v, want 6 s", took)
		}
		want(t, b.do("LOCK.TTL", key), "-"+msgLost(key, "maxhold"))
		if len(b.losses) != 0 {
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
	runParallel(t, tests)
}

func maxHoldWhileARequestIsUnanswered(t *testing.T, what *transport.Script, ran bool) {
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	a, key := connect(t, s), newKey()
	for range 3 {
		a.token(key, "OWNER", "me", "MAXHOLD", "8000")
	}
	fault := drop(p, ran)(running(what, key), faultproxy.Always())
	if what == script.ReleaseScript {
		want(t, a.do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	} else {
		want(t, a.do("LOCK.ACQUIRE", key, "OWNER", "me"), "-"+refusal.Unanswered)
	}
	want(t, receive(t, a.losses, 5*time.Second), key+" maxhold")
	if !exists(t, straight.Redis.Redis, key) && what == script.ReleaseScript {
		t.Error("released before the loss was reported")
	}
	fault.Disarm()
	eventually(t, 3*time.Second, "it is ended", func() bool { return !exists(t, straight.Redis.Redis, key) })
	eventually(t, 3*time.Second, "the hold is dropped", func() bool {
		return a.carrier.Holds() == 0 && s.Stats().Holds == 0
	})
	if len(a.losses) != 0 {
		t.Error("told twice")
	}
}

func TestR28MaxHoldEndsALeaseWithoutACarrier(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, other)
		began := time.Now()
		token := a.token(key, "OWNER", "me", "LEASE", "60000", "MAXHOLD", "6000")
		a.token(key, "OWNER", "me", "LEASE", "60000")
		a.carrier.End(Release) // the lease stays
		reply := b.do("LOCK.EXTEND", key, "60000", "TOKEN", strconv.FormatInt(token, 10))
		if left, err := strconv.Atoi(reply[1:]); err != nil || left > 8000 {
			t.Errorf("EXTEND: got %q, want no more than MAXHOLD leaves", reply)
		}
		b.token(key, "BLOCK", "30000")
		if took := time.Since(began); took < 6*time.Second || took > soon {
			t.Errorf("held for %v", took)
		}
	})
}

// TestR27OnLossErrorReportsToEachOwner: Each owner on a connection is told of the loss of its own
// hold, and commands about other holds succeed.
func TestR27OnLossErrorReportsToEachOwner(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		a, key := connect(t, s), newKey()
		for _, owner := range []string{"one", "two", "three"} {
			a.token(key, "READ", "OWNER", owner, "ONLOSS", "ERROR")
		}
		if err := rdb.HDel(ctx, key, "one", "two").Err(); err != nil {
			t.Fatal(err)
		}
		s.RenewAll(ctx)
		eventually(t, 2*time.Second, "the losses are found", func() bool { return a.carrier.Holds() == 1 })
		want(t, a.do("LOCK.RELEASE", key, "READ", "OWNER", "three"), ":1")
		want(t, a.do("LOCK.ACQUIRE", key, "READ", "OWNER", "two"), "-"+msgLost(key, "gone"))
		a.token(key, "READ", "OWNER", "two") // a new hold
		want(t, a.do("LOCK.RELEASE", key, "OWNER", "two"), ":1")
		want(t, a.do("LOCK.RELEASE", key, "OWNER", "one"), "-"+msgLost(key, "gone"))
		want(t, a.do("LOCK.RELEASE", key), "-"+refusal.NotHeld)
		wantNothing(t, rdb, key, a)
	})
}

// TestR27OnLossErrorOfOneOfSeveral: One key of a MACQUIRE is lost. The other keys are released,
// whichever command finds the loss.
func TestR27OnLossErrorOfOneOfSeveral(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		for _, found := range []bool{false, true} {
			a, keys := connect(t, s), []string{newKey(), newKey(), newKey()}
			wantPrefix(t, a.do("LOCK.MACQUIRE", "3", keys[0], keys[1], keys[2], "ONLOSS", "ERROR"), "*3")
			rdb.Del(t.Context(), keys[1])
			if found {
				s.RenewAll(t.Context())
				eventually(t, soon, "the loss is found", func() bool { return a.carrier.Holds() == 2 })
			}
			want(t, a.do("LOCK.MRELEASE", "3", keys[0], keys[1], keys[2]), "-"+msgLost(keys[1], "gone"))
			want(t, a.do("LOCK.MRELEASE", "3", keys[0], keys[1], keys[2]), ":0")
			for _, key := range keys {
				wantNothing(t, rdb, key, a)
			}
		}
	})
}

func TestR27OnLossErrorAndAnotherHold(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, ctx := leash(t, rdb, Config{}), context.Background()
		a, key := connect(t, s), newKey()
		lost := a.token(key, "READ", "OWNER", "one", "ONLOSS", "ERROR")
		lives := a.token(key, "READ", "OWNER", "two", "ONLOSS", "ERROR")
		if err := rdb.HDel(ctx, key, "one").Err(); err != nil {
			t.Fatal(err)
		}
		s.RenewAll(ctx)
		eventually(t, 2*time.Second, "the loss is found", func() bool { return a.carrier.Holds() == 1 })
		if left := a.do("LOCK.TTL", key, "TOKEN", strconv.FormatInt(lives, 10)); left[0] != ':' || left == ":-2" {
			t.Errorf("got TTL %s of the hold that lives", left)
		}
		want(t, a.do("LOCK.MRELEASE", "1", key, "TOKENS", strconv.FormatInt(lives, 10)), ":1")
		want(t, a.do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(lost, 10)), "-"+msgLost(key, "gone"))
		want(t, a.do("LOCK.TTL", key), ":-2")
		wantNothing(t, rdb, key, a)
	})
}
