package lockcmd

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// ms runs a command whose reply must be a number of milliseconds, at most most and not much less.
func (c *conn) ms(most int, args ...string) {
	c.t.Helper()
	reply := c.do(args...)
	if n, err := strconv.Atoi(reply[1:]); err != nil || n > most || n < most*9/10-3000 {
		c.t.Fatalf("%v: got %q, want about %d", args, reply, most)
	}
}

func TestR12ExtendSetsALease(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for _, where := range []*Service{nil, s, other} { // nil means the hold's own connection
			a, key := connect(t, s), newKey()
			token := a.token(key, "OWNER", "me", "LEASE", "60000")
			b, proof := a, []string{}
			if where != nil {
				b, proof = connect(t, where), []string{"TOKEN", strconv.FormatInt(token, 10)}
			}
			for _, ms := range []int{90000, 20000, 30000} {
				want(t, b.do(append([]string{"LOCK.EXTEND", key, strconv.Itoa(ms)}, proof...)...), ":"+strconv.Itoa(ms))
				if left := rdb.PTTL(context.Background(), key).Val().Milliseconds(); left > int64(ms) ||
					left < int64(ms)*2/3 {
					t.Fatalf("got TTL %d ms, want %d", left, ms)
				}
				if where == other { // the event may still be on its way
					eventually(t, 3*time.Second, "the carrier's Leash knows", func() bool {
						left, _ := strconv.Atoi(a.do("LOCK.TTL", key)[1:])
						return left > ms*2/3 && left <= ms
					})
				} else {
					a.ms(ms, "LOCK.TTL", key)
				}
				want(t, b.do("LOCK.EXTEND", key, "5", "OWNER", "you"), "-"+refusal.NotHeld)
				want(t, b.do("LOCK.EXTEND", key, "5", "TOKEN", "7"), "-"+refusal.NotHeld)
			}
			want(t, a.do("LOCK.RELEASE", key), ":1")
			want(t, a.do("LOCK.EXTEND", key, "5000"), "-"+refusal.NotHeld)
		}
	})
}

func TestR24ShorterLeaseIsDetectedWhenTheEventIsLost(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		withoutEvents := func(s *Service) { s.Events.Own = "nowhere" }
		s, other, key := leash(t, rdb, Config{}, withoutEvents),
			leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, other)
		ms := func() int {
			s.Watchdog.CheckAll()
			left, _ := strconv.Atoi(a.do("LOCK.TTL", key)[1:])
			return left
		}
		token := strconv.FormatInt(a.token(key, "LEASE", "900000"), 10)
		want(t, b.do("LOCK.EXTEND", key, "300000", "TOKEN", token), ":300000")
		eventually(t, 2*time.Second, "its owner does not rely on it for longer", func() bool { return ms() <= 300000 })
		want(t, b.do("LOCK.EXTEND", key, "600000", "TOKEN", token), ":600000")
		eventually(t, 2*time.Second, "its owner relies on it for longer again", func() bool {
			left := ms()
			return left > 300000 && left <= 600000
		})
		want(t, b.do("LOCK.EXTEND", key, "1", "TOKEN", token), ":1")
		s.Watchdog.CheckAll()
		eventually(t, 2*time.Second, "the hold is dropped", func() bool { return a.carrier.Holds() == 0 })
		if len(a.losses) != 0 {
			t.Error("the end of a lease was reported as a loss")
		}
		token = strconv.FormatInt(a.token(key, "LEASE", "60000"), 10)
		want(t, b.do("LOCK.EXTEND", key, "50000", "TOKEN", token), ":50000")
		rdb.Del(context.Background(), key) // but this one is lost
		s.Watchdog.CheckAll()
		want(t, receive(t, a.losses, 2*time.Second), key+" gone")
	})
}

func TestR12ExtendOfARenewedHoldIsRefused(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		want(t, a.do("LOCK.EXTEND", key, "5000"), "-"+refusal.NotHeld)
		a.token(key, "OWNER", "me", "LEASE", "60000")
		a.token(key, "OWNER", "me") // renewed from now on
		want(t, a.do("LOCK.EXTEND", key, "1"), "-"+refusal.IsRenewed)
		if left := rdb.PTTL(context.Background(), key).Val(); left < 30*time.Second {
			t.Errorf("a refused EXTEND has lowered the TTL to %v", left)
		}
		rdb.HSet(context.Background(), newKey(), "java:1", "1")
		want(t, connect(t, s).do("LOCK.EXTEND", newKey(), "5", "OWNER", "java:1"), "-"+refusal.NotHeld)
	})
}

func TestR26ExtendFindsItsHoldLost(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		a.token(key, "LEASE", "60000")
		rdb.Del(context.Background(), key)
		want(t, a.do("LOCK.EXTEND", key, "5000"), "-"+msgLost(key, "gone"))
		want(t, receive(t, a.losses, time.Second), key+" gone")
	})
}

func TestR7LostReplyOfExtend(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{})
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		for _, from := range []*Service{s, straight} {
			a, b, key := connect(t, from), connect(t, s), newKey()
			token := strconv.FormatInt(a.token(key, "LEASE", "60000"), 10)
			fault := arm(running(script.ExtendScript, key))
			b.ms(5000, "LOCK.EXTEND", key, "5000", "TOKEN", token)
			if fault.Count() != 1 {
				t.Fatal("nothing was lost")
			}
		}
	}
}

func TestR7LateExtendDoesNothing(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: 4 * time.Second})
	for _, between := range [][]string{{"LOCK.EXTEND", "%", "60000"},
		{"LOCK.ACQUIRE", "%", "OWNER", "me", "LEASE", "60000"}} {
		a, key := connect(t, s), newKey()
		a.token(key, "OWNER", "me", "LEASE", "60000")
		late := p.HoldBefore(running(script.ExtendScript, key))
		a.ms(9000, "LOCK.EXTEND", key, "9000") // the repeated EXTEND
		<-late.Triggered()
		between[1] = key
		wantPrefix(t, a.do(between...), ":")
		late.Release()
		<-time.After(100 * time.Millisecond)
		if left := straight.Redis.Redis.PTTL(t.Context(), key).Val(); left < 55*time.Second {
			t.Errorf("%s: a late EXTEND left %v", between[0], left)
		}
	}
}

func TestR24UnknownExtendIsNotBelievedForLonger(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		a, key := connect(t, s), newKey()
		a.token(key, "LEASE", "600000")
		fault := arm(running(script.ExtendScript, key), faultproxy.Always())
		// the hold may be checked together with others
		checks := func(request []byte) bool {
			return bytes.Contains(request, []byte(script.RenewScript.SHA)) ||
				bytes.Contains(request, []byte(script.RenewScript.Source))
		}
		results := p.DropBefore(checks, faultproxy.Always())
		want(t, a.do("LOCK.EXTEND", key, "60000"), "-"+refusal.ExtendUnknown)
		if left, _ := strconv.Atoi(a.do("LOCK.TTL", key)[1:]); left > 60000 {
			t.Errorf("held for %d ms by its owner's count, when only 60000 may be left", left)
		}
		fault.Disarm()
		results.Disarm()
		left := straight.Redis.Redis.PTTL(t.Context(), key).Val()
		eventually(t, 2*time.Second, "Redis is believed", func() bool {
			s.Watchdog.CheckAll()
			ms, _ := strconv.Atoi(a.do("LOCK.TTL", key)[1:])
			return script.Millis(int64(ms)) <= left && script.Millis(int64(ms)) > left-40*time.Second
		})
	}
}

func TestR12ExtendPassesAtMaxmemory(t *testing.T) {
	rdb, ctx := dialServer(t, sharedServer(t).Addr), context.Background()
	s, key := leash(t, rdb, Config{}), newKey()
	a := connect(t, s)
	a.token(key, "LEASE", "60000")
	rdb.ConfigSet(ctx, "maxmemory", "1")
	defer rdb.ConfigSet(ctx, "maxmemory", "0")
	want(t, a.do("LOCK.EXTEND", key, "5000"), ":5000")
}

func TestR6CheckFindsACurrentToken(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, other)
		token := strconv.FormatInt(a.token(key), 10)
		for _, c := range []*conn{a, b} {
			want(t, c.do("LOCK.CHECK", key, "TOKEN", token), ":1")
			want(t, c.do("LOCK.CHECK", key, "TOKEN", "1"), ":0")
		}
		want(t, a.do("LOCK.RELEASE", key), ":1")
		want(t, b.do("LOCK.CHECK", key, "TOKEN", token), ":0")
		next := a.token(key)
		want(t, b.do("LOCK.CHECK", key, "TOKEN", token), ":0")
		want(t, b.do("LOCK.CHECK", key, "TOKEN", strconv.FormatInt(next, 10)), ":1")
		key = newKey()
		rdb.Set(context.Background(), key, "text", 0)
		wantPrefix(t, a.do("LOCK.CHECK", key, "TOKEN", "1"), "-WRONGTYPE")
	})
}

// TestR6SilentRedisChangesNoHold: What only had to read the hold, and got no answer, says that
// nothing was done.
func TestR6SilentRedisChangesNoHold(t *testing.T) {
	t.Parallel()
	s, _, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	a, key := connect(t, s), newKey()
	token := strconv.FormatInt(a.token(key, "OWNER", "me", "LEASE", "60000"), 10)
	p.Freeze()
	defer p.Thaw()
	want(t, a.do("LOCK.CHECK", key, "TOKEN", token), "-"+refusal.Refused)
	want(t, a.do("LOCK.EXTEND", key, "60000", "TOKEN", token), "-"+refusal.Refused)
	want(t, connect(t, s).do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token), "-"+refusal.Refused)
}

// TestR12ExtendEndsWithMaxHold: EXTEND replies with how long the lock is held. That is less than
// Redis's TTL when MAXHOLD ends the hold before.
func TestR12ExtendEndsWithMaxHold(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for where, by := range map[string]*Service{"its connection": nil, "its Leash": s, "another Leash": other} {
			for _, mode := range []string{"", "WRITE"} {
				a, key := connect(t, s), newKey()
				began := time.Now()
				token := strconv.FormatInt(a.token(append([]string{key, "LEASE", "20000", "MAXHOLD", "30000"},
					strings.Fields(mode)...)...), 10)
				b := a
				if by != nil {
					b = connect(t, by)
				}
				left, err := strconv.Atoi(b.do("LOCK.EXTEND", key, "600000", "TOKEN", token)[1:])
				if took := time.Since(began); err != nil || left > 30000 || left < 29000-int(took.Milliseconds()) {
					t.Errorf("by %s: got %d ms after %v, %v", where, left, took, err)
				}
				want(t, b.do("LOCK.EXTEND", key, "300", "TOKEN", token), ":300")
			}
		}
	})
}

// TestR12ExtendReturnsNoMoreThanMaxHoldLeaves: Redis answers late. EXTEND still replies with what
// is left of MAXHOLD.
func TestR12ExtendReturnsNoMoreThanMaxHoldLeaves(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: 4 * time.Second})
	for where, from := range map[string]*Service{"its connection": s, "another Leash": straight} {
		a, b, key := connect(t, from), connect(t, s), newKey()
		if from == s {
			b = a
		}
		began := time.Now()
		token := strconv.FormatInt(a.token(key, "LEASE", "20000", "MAXHOLD", "10000"), 10)
		late := p.HoldBefore(running(script.ByName("inspect"), key))
		go func() {
			<-late.Triggered()
			time.Sleep(time.Second) // the reply is that late
			late.Release()
		}()
		left, err := strconv.Atoi(b.do("LOCK.EXTEND", key, "600000", "TOKEN", token)[1:])
		if took := time.Since(began).Milliseconds(); err != nil || took < 1000 || int64(left)+took < 9998 {
			t.Errorf("by %s: %d ms of 10000 are left after %d, %v", where, left, took, err)
		}
	}
}

// TestR12ExtendOfOneOfSeveral: The hold was granted by a MACQUIRE. Its MAXHOLD counts from the
// grant of all keys.
func TestR12ExtendOfOneOfSeveral(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{})
		a, other, key := connect(t, s), connect(t, s), newKey()
		other.token(key + ":2")
		reply := a.start("LOCK.MACQUIRE", "2", key+":1", key+":2", "BLOCK", "0", "LEASE", "60000", "MAXHOLD", "1000")
		eventually(t, soon, "it has the first one", func() bool { return rdb.Exists(t.Context(), key+":1").Val() == 1 })
		time.Sleep(1500 * time.Millisecond) // longer than MAXHOLD
		began := time.Now()
		want(t, other.do("LOCK.RELEASE", key+":2"), ":1")
		wantPrefix(t, receive(t, reply, soon), "*2")
		left, err := strconv.Atoi(a.do("LOCK.EXTEND", key+":1", "60000")[1:])
		if took := time.Since(began).Milliseconds(); err != nil || left > 1000 || int64(left)+took < 998 {
			t.Errorf("%d ms of 1000 are left after %d, %v", left, took, err)
		}
	})
}
