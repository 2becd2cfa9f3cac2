package acquire_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// everyMode runs a test for each mode, on a single Redis and on a cluster, with two Leashes.
func everyMode(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient, s, other *lockcmd.Service,
	mode string)) {
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		tests := make(map[string]func(*testing.T))
		for _, m := range script.Modes {
			tests[m.Name] = func(t *testing.T) {
				test(t, rdb, locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
					m.Option)
			}
		}
		locktest.RunParallel(t, tests)
	})
}

func TestR4EveryModeIsAttached(t *testing.T) {
	t.Parallel()
	everyMode(t, func(t *testing.T, rdb redis.UniversalClient, s, other *lockcmd.Service, mode string) {
		key, a := locktest.NewKey(), locktest.Connect(t, s)
		token := a.Hold(key, mode, "OWNER", "me", "ONCLOSE", "EXPIRE", "MAXHOLD", "60000", "TTL", "5000")
		a.Hold(key, mode, "OWNER", "me")
		a.Carrier.End(lockcmd.Release)
		for _, where := range []*lockcmd.Service{s, other, other, s} {
			b := locktest.Connect(t, where)
			b.Attach(key, "me", token)
			if b.Carrier.Holds() != 1 {
				t.Fatal("it does not hang here")
			}
			d := b.Oldest().Details()
			if !d.Terms.StayOnClose || d.Terms.Lease || d.Terms.ErrorOnLoss || d.Terms.MaxHold != time.Minute ||
				d.Count != 2 || time.Until(d.MaxHoldEnd) > time.Minute {
				t.Errorf("got %+v", d)
			}
			if a.Carrier.CanAnswer(context.Background()) {
				locktest.Want(t, locktest.Receive(t, a.Moved, 3*time.Second), key)
			}
			if left := rdb.PTTL(context.Background(), key).Val(); left < 25*time.Second {
				t.Errorf("got TTL %v, want 30 s", left)
			}
			a = b
		}
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":0")
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if locktest.Exists(t, rdb, key) || locktest.Exists(t, rdb, script.RecordsKey(key)) {
			t.Error("something is left behind")
		}
	})
}

func TestR12EveryModeIsExtended(t *testing.T) {
	t.Parallel()
	everyMode(t, func(t *testing.T, rdb redis.UniversalClient, s, other *lockcmd.Service, mode string) {
		key, a, b := locktest.NewKey(), locktest.Connect(t, s), locktest.Connect(t, other)
		token := strconv.FormatInt(a.Hold(key, mode, "LEASE", "60000"), 10)
		for _, ms := range []string{"90000", "20000", "40000"} {
			locktest.Want(t, a.Do("LOCK.EXTEND", key, ms), ":"+ms)
			n, _ := strconv.Atoi(ms)
			a.Ms(n, "LOCK.TTL", key)
			if left := rdb.PTTL(context.Background(), key).Val().Milliseconds(); left > int64(n) ||
				left < int64(n)-5000 {
				t.Errorf("got TTL %d ms, want %s", left, ms)
			}
		}
		locktest.Want(t, b.Do("LOCK.EXTEND", key, "10000", "TOKEN", token), ":10000")
		locktest.Eventually(t, 3*time.Second, "the carrier's Leash knows", func() bool {
			left, _ := strconv.Atoi(a.Do("LOCK.TTL", key)[1:])
			return left > 0 && left <= 10000
		})
		locktest.Want(t, b.Do("LOCK.CHECK", key, "TOKEN", token), ":1")
		locktest.Want(t, b.Do("LOCK.EXTEND", key, "1", "TOKEN", token), ":1")
		locktest.Connect(t, other).Token(key, "BLOCK", "50000")
		locktest.Want(t, b.Do("LOCK.CHECK", key, "TOKEN", token), ":0")
		locktest.Eventually(t, 3*time.Second, "the hold is dropped", func() bool { return a.Carrier.Holds() == 0 })
		if len(a.Losses) != 0 {
			t.Errorf("the end of a lease was reported as a loss: %s", <-a.Losses)
		}
	})
}

func TestR27LossIsReportedInEveryMode(t *testing.T) {
	t.Parallel()
	everyMode(t, func(t *testing.T, rdb redis.UniversalClient, s, other *lockcmd.Service, mode string) {
		key, a, b := locktest.NewKey(), locktest.Connect(t, s), locktest.Connect(t, other)
		a.Hold(key, mode, "ONLOSS", "ERROR", "OWNER", "me")
		locktest.Want(t, b.Do("LOCK.BREAK", key), ":1")
		locktest.Want(t, a.Do("LOCK.TTL", key), "-"+locktest.MsgLost(key, "broken"))
		a.Hold(key, mode, "ONLOSS", "ERROR", "MAXHOLD", "4000")
		b.Token(key, "BLOCK", "50000")
		locktest.Want(t, a.Do("LOCK.TTL", key), "-"+locktest.MsgLost(key, "maxhold"))
		locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		a.Hold(key, mode, "ONLOSS", "ERROR", "OWNER", "me")
		rdb.Del(context.Background(), key, script.RecordsKey(key))
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "me"), "-"+locktest.MsgLost(key, "gone"))
		locktest.Want(t, a.Do("LOCK.RELEASE", key, "OWNER", "me"), "-"+refusal.NotHeld)
		if len(a.Losses) != 0 {
			t.Error("the connection was closed")
		}
	})
}
