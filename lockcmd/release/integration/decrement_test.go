package release_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// enterTwice acquires a lock twice. It then lowers the count in Redis without an event, as if
// another Leash had released once and the event was lost.
func enterTwice(t testing.TB, a *locktest.Client, rdb redis.UniversalClient, key string,
	options ...string) (token int64) {
	t.Helper()
	a.Token(append([]string{key, "OWNER", "me"}, options...)...)
	token = a.Token(append([]string{key, "OWNER", "me"}, options...)...)
	field := "me"
	if len(options) > 0 && options[0] == "WRITE" {
		field = "me:write"
	}
	if n, err := rdb.HIncrBy(context.Background(), key, field, -1).Result(); err != nil || n != 1 {
		t.Fatalf("got count %d, %v", n, err)
	}
	return token
}

func TestR26LostReplyOfALastReleaseTakenForOneOfSeveral(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
	for mode, release := range map[string]*transport.Script{"": script.ReleaseScript, "WRITE": script.Write.Release} {
		var options []string
		if mode != "" {
			options = []string{mode}
		}
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(append([]string{key}, options...)...) // Redis knows the script now
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		enterTwice(t, a, locktest.RedisOf(straight), key, options...)
		fault := p.DropAfter(locktest.Running(release, key))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
		if fault.Count() != 1 || len(a.Losses) != 0 || a.Carrier.Holds() != 0 {
			t.Fatalf("%s: %d faults, %d losses, %d holds", mode, fault.Count(), len(a.Losses), a.Carrier.Holds())
		}

		token := enterTwice(t, a, locktest.RedisOf(straight), key, options...)
		locktest.RedisOf(straight).Set(context.Background(), script.TombstoneKey(key, token, a.Carrier.Name),
			event.Broken, time.Minute)
		p.DropAfter(locktest.Running(release, key))
		locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+locktest.MsgLost(key, "broken"))
		locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" broken")
	}
}

func TestR26RenewalBesideALastReleaseTakenForOneOfSeveral(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	ctx := context.Background()
	a, key := locktest.Connect(t, s), locktest.NewKey()
	during := func(arm func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault, lose bool) string {
		t.Helper()
		fault := arm(locktest.Running(script.ReleaseScript, key))
		reply := a.Start("LOCK.RELEASE", key)
		locktest.Receive(t, fault.Triggered(), time.Second)
		if lose {
			locktest.RedisOf(straight).Del(ctx, key)
		}
		s.RenewAll(ctx)
		if len(a.Losses) != 0 {
			t.Fatalf("told of a loss while the release was in progress: %s", <-a.Losses)
		}
		fault.Release()
		return locktest.Receive(t, reply, time.Second)
	}
	enterTwice(t, a, locktest.RedisOf(straight), key)
	locktest.Want(t, during(p.HoldAfter, false), ":1")
	if len(a.Losses) != 0 || a.Carrier.Holds() != 0 {
		t.Fatal("reported as a loss, or kept")
	}

	a.Token(key, "OWNER", "me")
	a.Token(key, "OWNER", "me")
	locktest.Want(t, during(p.HoldBefore, true), "-"+locktest.MsgLost(key, "gone")) // the release did not end the hold
	locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" gone")

	a = locktest.Connect(t, s)
	a.Token(key, "OWNER", "me")
	a.Token(key, "OWNER", "me")
	locktest.Want(t, during(p.HoldAfter, true), ":0") // the hold was lost after the release
	locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" gone")
	locktest.Eventually(t, time.Second, "the hold is dropped", func() bool { return a.Carrier.Holds() == 0 })
}

// TestR25LossDuringAnUnknownReleaseIsReportedInTime: The hold is lost while the outcome of a
// release is unknown. The loss is reported before the lease would end.
func TestR25LossDuringAnUnknownReleaseIsReportedInTime(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{WatchdogTimeout: 12 * time.Second,
		UpstreamTimeout: locktest.ShortTimeout})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	a.Token(key, "OWNER", "me")
	a.Token(key, "OWNER", "me")
	p.DropBefore(locktest.Running(script.ReleaseScript, key), faultproxy.Always())
	locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	locktest.RedisOf(straight).Del(context.Background(), key)
	locktest.Want(t, locktest.Receive(t, a.Losses, 12*time.Second), key+" gone")
	locktest.Eventually(t, time.Second, "the hold is dropped", func() bool { return s.Stats().Holds == 0 })
}

func TestR30ReleaseOfACountIsReportedToTheCarrier(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		for _, mode := range []string{"FAIR", "READ", "WRITE"} {
			a, b, key := locktest.Connect(t, s), locktest.Connect(t, other), locktest.NewKey()
			var token int64
			for range 3 {
				token = a.Token(key, "OWNER", "me", mode)
			}
			h := a.Last(func(*hold.Hold) bool { return true })
			for n := int64(2); n > 0; n-- {
				locktest.Want(t, b.Do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(token, 10)), ":0")
				locktest.Eventually(t, time.Second, "the carrier's Leash knows", func() bool {
					return h.Details().Count == n
				})
			}
			locktest.Deliver(s, event.Text(event.Decremented, token, a.Carrier.Name,
				key)) // a forged event: nobody has released
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			if len(a.Losses) != 0 {
				t.Error("reported as a loss")
			}
		}
	})
}
