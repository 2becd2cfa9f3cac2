package hold_test

import (
	"bytes"
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
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

func TestR12ExtendSetsALease(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		for _, where := range []*lockcmd.Service{nil, s, other} { // nil means the hold's own connection
			a, key := locktest.Connect(t, s), locktest.NewKey()
			token := a.Token(key, "OWNER", "me", "LEASE", "60000")
			b, proof := a, []string{}
			if where != nil {
				b, proof = locktest.Connect(t, where), []string{"TOKEN", strconv.FormatInt(token, 10)}
			}
			for _, ms := range []int{90000, 20000, 30000} {
				locktest.Want(t, b.Do(append([]string{"LOCK.EXTEND", key, strconv.Itoa(ms)}, proof...)...),
					":"+strconv.Itoa(ms))
				if left := rdb.PTTL(context.Background(), key).Val().Milliseconds(); left > int64(ms) ||
					left < int64(ms)*2/3 {
					t.Fatalf("got TTL %d ms, want %d", left, ms)
				}
				if where == other { // the event may still be on its way
					locktest.Eventually(t, 3*time.Second, "the carrier's Leash knows", func() bool {
						left, _ := strconv.Atoi(a.Do("LOCK.TTL", key)[1:])
						return left > ms*2/3 && left <= ms
					})
				} else {
					a.Ms(ms, "LOCK.TTL", key)
				}
				locktest.Want(t, b.Do("LOCK.EXTEND", key, "5", "OWNER", "you"), "-"+refusal.NotHeld)
				locktest.Want(t, b.Do("LOCK.EXTEND", key, "5", "TOKEN", "7"), "-"+refusal.NotHeld)
			}
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			locktest.Want(t, a.Do("LOCK.EXTEND", key, "5000"), "-"+refusal.NotHeld)
		}
	})
}

func TestR24ShorterLeaseIsDetectedWhenTheEventIsLost(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *lockcmd.Service) { s.Events.Own = "nowhere" }
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}, withoutEvents),
			locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		ms := func() int {
			s.Watchdog.CheckAll()
			left, _ := strconv.Atoi(a.Do("LOCK.TTL", key)[1:])
			return left
		}
		token := strconv.FormatInt(a.Token(key, "LEASE", "900000"), 10)
		locktest.Want(t, b.Do("LOCK.EXTEND", key, "300000", "TOKEN", token), ":300000")
		locktest.Eventually(t, 2*time.Second, "its owner does not rely on it for longer",
			func() bool { return ms() <= 300000 })
		locktest.Want(t, b.Do("LOCK.EXTEND", key, "600000", "TOKEN", token), ":600000")
		locktest.Eventually(t, 2*time.Second, "its owner relies on it for longer again", func() bool {
			left := ms()
			return left > 300000 && left <= 600000
		})
		locktest.Want(t, b.Do("LOCK.EXTEND", key, "1", "TOKEN", token), ":1")
		s.Watchdog.CheckAll()
		locktest.Eventually(t, 2*time.Second, "the hold is dropped", func() bool { return a.Carrier.Holds() == 0 })
		if len(a.Losses) != 0 {
			t.Error("the end of a lease was reported as a loss")
		}
		token = strconv.FormatInt(a.Token(key, "LEASE", "60000"), 10)
		locktest.Want(t, b.Do("LOCK.EXTEND", key, "50000", "TOKEN", token), ":50000")
		rdb.Del(context.Background(), key) // but this one is lost
		s.Watchdog.CheckAll()
		locktest.Want(t, locktest.Receive(t, a.Losses, 2*time.Second), key+" gone")
	})
}

func TestR12ExtendOfARenewedHoldIsRefused(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a := locktest.Connect(t, s)
		locktest.Want(t, a.Do("LOCK.EXTEND", key, "5000"), "-"+refusal.NotHeld)
		a.Token(key, "OWNER", "me", "LEASE", "60000")
		a.Token(key, "OWNER", "me") // renewed from now on
		locktest.Want(t, a.Do("LOCK.EXTEND", key, "1"), "-"+refusal.IsRenewed)
		if left := rdb.PTTL(context.Background(), key).Val(); left < 30*time.Second {
			t.Errorf("a refused EXTEND has lowered the TTL to %v", left)
		}
		rdb.HSet(context.Background(), locktest.NewKey(), "java:1", "1")
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.EXTEND", locktest.NewKey(), "5", "OWNER", "java:1"),
			"-"+refusal.NotHeld)
	})
}

func TestR26ExtendFindsItsHoldLost(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a := locktest.Connect(t, s)
		a.Token(key, "LEASE", "60000")
		rdb.Del(context.Background(), key)
		locktest.Want(t, a.Do("LOCK.EXTEND", key, "5000"), "-"+locktest.MsgLost(key, "gone"))
		locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" gone")
	})
}

func TestR7LostReplyOfExtend(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		for _, from := range []*lockcmd.Service{s, straight} {
			a, b, key := locktest.Connect(t, from), locktest.Connect(t, s), locktest.NewKey()
			token := strconv.FormatInt(a.Token(key, "LEASE", "60000"), 10)
			fault := arm(locktest.Running(script.ExtendScript, key))
			b.Ms(5000, "LOCK.EXTEND", key, "5000", "TOKEN", token)
			if fault.Count() != 1 {
				t.Fatal("nothing was lost")
			}
		}
	}
}

func TestR7LateExtendDoesNothing(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: 4 * time.Second})
	for _, between := range [][]string{{"LOCK.EXTEND", "%", "60000"},
		{"LOCK.ACQUIRE", "%", "OWNER", "me", "LEASE", "60000"}} {
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(key, "OWNER", "me", "LEASE", "60000")
		late := p.HoldBefore(locktest.Running(script.ExtendScript, key))
		a.Ms(9000, "LOCK.EXTEND", key, "9000") // the repeated EXTEND
		<-late.Triggered()
		between[1] = key
		locktest.WantPrefix(t, a.Do(between...), ":")
		late.Release()
		<-time.After(100 * time.Millisecond)
		if left := locktest.RedisOf(straight).PTTL(t.Context(), key).Val(); left < 55*time.Second {
			t.Errorf("%s: a late EXTEND left %v", between[0], left)
		}
	}
}

func TestR24UnknownExtendIsNotBelievedForLonger(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(key, "LEASE", "600000")
		fault := arm(locktest.Running(script.ExtendScript, key), faultproxy.Always())
		// the hold may be checked together with others
		checks := func(request []byte) bool {
			return bytes.Contains(request, []byte(script.RenewScript.SHA)) ||
				bytes.Contains(request, []byte(script.RenewScript.Source))
		}
		results := p.DropBefore(checks, faultproxy.Always())
		locktest.Want(t, a.Do("LOCK.EXTEND", key, "60000"), "-"+refusal.ExtendUnknown)
		if left, _ := strconv.Atoi(a.Do("LOCK.TTL", key)[1:]); left > 60000 {
			t.Errorf("held for %d ms by its owner's count, when only 60000 may be left", left)
		}
		fault.Disarm()
		results.Disarm()
		left := locktest.RedisOf(straight).PTTL(t.Context(), key).Val()
		locktest.Eventually(t, 2*time.Second, "Redis is believed", func() bool {
			s.Watchdog.CheckAll()
			ms, _ := strconv.Atoi(a.Do("LOCK.TTL", key)[1:])
			return script.Millis(int64(ms)) <= left && script.Millis(int64(ms)) > left-40*time.Second
		})
	}
}

func TestR12ExtendPassesAtMaxmemory(t *testing.T) {
	rdb, ctx := locktest.DialServer(t, redistest.SharedServer(t).Addr), context.Background()
	s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
	a := locktest.Connect(t, s)
	a.Token(key, "LEASE", "60000")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	locktest.Want(t, a.Do("LOCK.EXTEND", key, "5000"), ":5000")
}

func TestR6CheckFindsACurrentToken(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		token := strconv.FormatInt(a.Token(key), 10)
		for _, c := range []*locktest.Client{a, b} {
			locktest.Want(t, c.Do("LOCK.CHECK", key, "TOKEN", token), ":1")
			locktest.Want(t, c.Do("LOCK.CHECK", key, "TOKEN", "1"), ":0")
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		locktest.Want(t, b.Do("LOCK.CHECK", key, "TOKEN", token), ":0")
		next := a.Token(key)
		locktest.Want(t, b.Do("LOCK.CHECK", key, "TOKEN", token), ":0")
		locktest.Want(t, b.Do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(next, 10)), ":1")
		key = locktest.NewKey()
		rdb.Set(context.Background(), key, "text", 0)
		locktest.WantPrefix(t, a.Do("LOCK.CHECK", key, "TOKEN", "1"), "-WRONGTYPE")
	})
}

// TestR6SilentRedisChangesNoHold: What only had to read the hold, and got no answer, says that
// nothing was done.
func TestR6SilentRedisChangesNoHold(t *testing.T) {
	t.Parallel()
	s, _, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	token := strconv.FormatInt(a.Token(key, "OWNER", "me", "LEASE", "60000"), 10)
	p.Freeze()
	defer p.Thaw()
	locktest.Want(t, a.Do("LOCK.CHECK", key, "TOKEN", token), "-"+refusal.NotAccepted)
	locktest.Want(t, a.Do("LOCK.EXTEND", key, "60000", "TOKEN", token), "-"+refusal.NotAccepted)
	locktest.Want(t, locktest.Connect(t, s).Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token), "-"+refusal.NotAccepted)
}

// TestR12ExtendEndsWithMaxHold: EXTEND replies with how long the lock is held. That is less than
// Redis's TTL when MAXHOLD ends the hold before.
func TestR12ExtendEndsWithMaxHold(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		for where, by := range map[string]*lockcmd.Service{"its connection": nil, "its Leash": s,
			"another Leash": other} {
			for _, mode := range []string{"", "WRITE"} {
				a, key := locktest.Connect(t, s), locktest.NewKey()
				began := time.Now()
				token := strconv.FormatInt(a.Token(append([]string{key, "LEASE", "20000", "MAXHOLD", "30000"},
					strings.Fields(mode)...)...), 10)
				b := a
				if by != nil {
					b = locktest.Connect(t, by)
				}
				left, err := strconv.Atoi(b.Do("LOCK.EXTEND", key, "600000", "TOKEN", token)[1:])
				if took := time.Since(began); err != nil || left > 30000 || left < 29000-int(took.Milliseconds()) {
					t.Errorf("by %s: got %d ms after %v, %v", where, left, took, err)
				}
				locktest.Want(t, b.Do("LOCK.EXTEND", key, "300", "TOKEN", token), ":300")
			}
		}
	})
}

// TestR12ExtendReturnsNoMoreThanMaxHoldLeaves: Redis answers late. EXTEND still replies with what
// is left of MAXHOLD.
func TestR12ExtendReturnsNoMoreThanMaxHoldLeaves(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: 4 * time.Second})
	for where, from := range map[string]*lockcmd.Service{"its connection": s, "another Leash": straight} {
		a, b, key := locktest.Connect(t, from), locktest.Connect(t, s), locktest.NewKey()
		if from == s {
			b = a
		}
		began := time.Now()
		token := strconv.FormatInt(a.Token(key, "LEASE", "20000", "MAXHOLD", "10000"), 10)
		late := p.HoldBefore(locktest.Running(script.ByName("inspect"), key))
		go func() {
			<-late.Triggered()
			time.Sleep(time.Second) // the reply is that late
			late.Release()
		}()
		left, err := strconv.Atoi(b.Do("LOCK.EXTEND", key, "600000", "TOKEN", token)[1:])
		if took := time.Since(began).Milliseconds(); err != nil || took < 1000 || int64(left)+took < 9998 {
			t.Errorf("by %s: %d ms of 10000 are left after %d, %v", where, left, took, err)
		}
	}
}

// TestR12ExtendOfOneOfSeveral: The hold was granted by a MACQUIRE. Its MAXHOLD counts from the
// grant of all keys.
func TestR12ExtendOfOneOfSeveral(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{})
		a, other, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
		other.Token(key + ":2")
		reply := a.Start("LOCK.MACQUIRE", "2", key+":1", key+":2", "BLOCK", "0", "LEASE", "60000", "MAXHOLD", "1000")
		locktest.Eventually(t, locktest.Soon, "it has the first one",
			func() bool { return rdb.Exists(t.Context(), key+":1").Val() == 1 })
		time.Sleep(1500 * time.Millisecond) // longer than MAXHOLD
		began := time.Now()
		locktest.Want(t, other.Do("LOCK.RELEASE", key+":2"), ":1")
		locktest.WantPrefix(t, locktest.Receive(t, reply, locktest.Soon), "*2")
		left, err := strconv.Atoi(a.Do("LOCK.EXTEND", key+":1", "60000")[1:])
		if took := time.Since(began).Milliseconds(); err != nil || left > 1000 || int64(left)+took < 998 {
			t.Errorf("%d ms of 1000 are left after %d, %v", left, took, err)
		}
	})
}
