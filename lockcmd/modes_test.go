package lockcmd

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// everyMode runs a test for each mode, on a single Redis and on a cluster, with two Leashes.
func everyMode(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient, s, other *Service, mode string)) {
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		tests := make(map[string]func(*testing.T))
		for _, m := range script.Modes {
			tests[m.Name] = func(t *testing.T) {
				test(t, rdb, leash(t, rdb, Config{}), leash(t, rdb, Config{}),
					m.Option)
			}
		}
		runParallel(t, tests)
	})
}

// hold acquires a lock in a mode.
func (c *conn) hold(key, mode string, options ...string) (token int64) {
	c.t.Helper()
	args := append([]string{key}, options...)
	if mode != "" {
		args = append(args, mode)
	}
	return c.token(args...)
}

func TestR4EveryModeIsAttached(t *testing.T) {
	t.Parallel()
	everyMode(t, func(t *testing.T, rdb redis.UniversalClient, s, other *Service, mode string) {
		key, a := newKey(), connect(t, s)
		token := a.hold(key, mode, "OWNER", "me", "ONCLOSE", "EXPIRE", "MAXHOLD", "60000", "TTL", "5000")
		a.hold(key, mode, "OWNER", "me")
		a.carrier.End(Release)
		for _, where := range []*Service{s, other, other, s} {
			b := connect(t, where)
			b.attach(key, "me", token)
			if b.carrier.Holds() != 1 {
				t.Fatal("it does not hang here")
			}
			d := b.carrier.oldest().Details()
			if !d.Terms.StayOnClose || d.Terms.Lease || d.Terms.ErrorOnLoss || d.Terms.MaxHold != time.Minute ||
				d.Count != 2 || time.Until(d.MaxHoldEnd) > time.Minute {
				t.Errorf("got %+v", d)
			}
			if a.carrier.CanAnswer(context.Background()) {
				want(t, receive(t, a.moved, 3*time.Second), key)
			}
			if left := rdb.PTTL(context.Background(), key).Val(); left < 25*time.Second {
				t.Errorf("got TTL %v, want 30 s", left)
			}
			a = b
		}
		want(t, a.do("LOCK.RELEASE", key), ":0")
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if exists(t, rdb, key) || exists(t, rdb, script.RecordsKey(key)) {
			t.Error("something is left behind")
		}
	})
}

func TestR12EveryModeIsExtended(t *testing.T) {
	t.Parallel()
	everyMode(t, func(t *testing.T, rdb redis.UniversalClient, s, other *Service, mode string) {
		key, a, b := newKey(), connect(t, s), connect(t, other)
		token := strconv.FormatInt(a.hold(key, mode, "LEASE", "60000"), 10)
		for _, ms := range []string{"90000", "20000", "40000"} {
			want(t, a.do("LOCK.EXTEND", key, ms), ":"+ms)
			n, _ := strconv.Atoi(ms)
			a.ms(n, "LOCK.TTL", key)
			if left := rdb.PTTL(context.Background(), key).Val().Milliseconds(); left > int64(n) ||
				left < int64(n)-5000 {
				t.Errorf("got TTL %d ms, want %s", left, ms)
			}
		}
		want(t, b.do("LOCK.EXTEND", key, "10000", "TOKEN", token), ":10000")
		eventually(t, 3*time.Second, "the carrier's Leash knows", func() bool {
			left, _ := strconv.Atoi(a.do("LOCK.TTL", key)[1:])
			return left > 0 && left <= 10000
		})
		want(t, b.do("LOCK.CHECK", key, "TOKEN", token), ":1")
		want(t, b.do("LOCK.EXTEND", key, "1", "TOKEN", token), ":1")
		connect(t, other).token(key, "BLOCK", "50000")
		want(t, b.do("LOCK.CHECK", key, "TOKEN", token), ":0")
		eventually(t, 3*time.Second, "the hold is dropped", func() bool { return a.carrier.Holds() == 0 })
		if len(a.losses) != 0 {
			t.Errorf("the end of a lease was reported as a loss: %s", <-a.losses)
		}
	})
}

func TestR27LossIsReportedInEveryMode(t *testing.T) {
	t.Parallel()
	everyMode(t, func(t *testing.T, rdb redis.UniversalClient, s, other *Service, mode string) {
		key, a, b := newKey(), connect(t, s), connect(t, other)
		a.hold(key, mode, "ONLOSS", "ERROR", "OWNER", "me")
		want(t, b.do("LOCK.BREAK", key), ":1")
		want(t, a.do("LOCK.TTL", key), "-"+msgLost(key, "broken"))
		a.hold(key, mode, "ONLOSS", "ERROR", "MAXHOLD", "4000")
		b.token(key, "BLOCK", "50000")
		want(t, a.do("LOCK.TTL", key), "-"+msgLost(key, "maxhold"))
		want(t, b.do("LOCK.RELEASE", key), ":1")
		a.hold(key, mode, "ONLOSS", "ERROR", "OWNER", "me")
		rdb.Del(context.Background(), key, script.RecordsKey(key))
		want(t, a.do("LOCK.RELEASE", key, "OWNER", "me"), "-"+msgLost(key, "gone"))
		want(t, a.do("LOCK.RELEASE", key, "OWNER", "me"), "-"+refusal.NotHeld)
		if len(a.losses) != 0 {
			t.Error("the connection was closed")
		}
	})
}
