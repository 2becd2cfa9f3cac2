package lockcmd

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// enterTwice acquires a lock twice. It then lowers the count in Redis without an event, as if
// another Leash had released once and the event was lost.
func enterTwice(t testing.TB, a *conn, rdb redis.UniversalClient, key string, options ...string) (token int64) {
	t.Helper()
	a.token(append([]string{key, "OWNER", "me"}, options...)...)
	token = a.token(append([]string{key, "OWNER", "me"}, options...)...)
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
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	for mode, release := range map[string]*transport.Script{"": script.ReleaseScript, "WRITE": script.Write.Release} {
		var options []string
		if mode != "" {
			options = []string{mode}
		}
		a, key := connect(t, s), newKey()
		a.token(append([]string{key}, options...)...) // Redis knows the script now
		want(t, a.do("LOCK.RELEASE", key), ":1")
		enterTwice(t, a, straight.Redis.Redis, key, options...)
		fault := p.DropAfter(running(release, key))
		want(t, a.do("LOCK.RELEASE", key), ":1")
		if fault.Count() != 1 || len(a.losses) != 0 || a.carrier.Holds() != 0 {
			t.Fatalf("%s: %d faults, %d losses, %d holds", mode, fault.Count(), len(a.losses), a.carrier.Holds())
		}

		token := enterTwice(t, a, straight.Redis.Redis, key, options...)
		straight.Redis.Redis.Set(context.Background(), script.TombstoneKey(key, token, a.carrier.Name),
			event.Broken, time.Minute)
		p.DropAfter(running(release, key))
		want(t, a.do("LOCK.RELEASE", key), "-"+msgLost(key, "broken"))
		want(t, receive(t, a.losses, time.Second), key+" broken")
	}
}

func TestR26RenewalBesideALastReleaseTakenForOneOfSeveral(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{})
	ctx := context.Background()
	a, key := connect(t, s), newKey()
	during := func(arm func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault, lose bool) string {
		t.Helper()
		fault := arm(running(script.ReleaseScript, key))
		reply := a.start("LOCK.RELEASE", key)
		receive(t, fault.Triggered(), time.Second)
		if lose {
			straight.Redis.Redis.Del(ctx, key)
		}
		s.RenewAll(ctx)
		if len(a.losses) != 0 {
			t.Fatalf("told of a loss while the release was in progress: %s", <-a.losses)
		}
		fault.Release()
		return receive(t, reply, time.Second)
	}
	enterTwice(t, a, straight.Redis.Redis, key)
	want(t, during(p.HoldAfter, false), ":1")
	if len(a.losses) != 0 || a.carrier.Holds() != 0 {
		t.Fatal("reported as a loss, or kept")
	}

	a.token(key, "OWNER", "me")
	a.token(key, "OWNER", "me")
	want(t, during(p.HoldBefore, true), "-"+msgLost(key, "gone")) // the release did not end the hold
	want(t, receive(t, a.losses, time.Second), key+" gone")

	a = connect(t, s)
	a.token(key, "OWNER", "me")
	a.token(key, "OWNER", "me")
	want(t, during(p.HoldAfter, true), ":0") // the hold was lost after the release
	want(t, receive(t, a.losses, time.Second), key+" gone")
	eventually(t, time.Second, "the hold is dropped", func() bool { return a.carrier.Holds() == 0 })
}

// TestR25LossDuringAnUnknownReleaseIsReportedInTime: The hold is lost while the outcome of a
// release is unknown. The loss is reported before the lease would end.
func TestR25LossDuringAnUnknownReleaseIsReportedInTime(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{WatchdogTimeout: 12 * time.Second, UpstreamTimeout: shortTimeout})
	a, key := connect(t, s), newKey()
	a.token(key, "OWNER", "me")
	a.token(key, "OWNER", "me")
	p.DropBefore(running(script.ReleaseScript, key), faultproxy.Always())
	want(t, a.do("LOCK.RELEASE", key), "-"+refusal.ReleaseLater)
	straight.Redis.Redis.Del(context.Background(), key)
	want(t, receive(t, a.losses, 12*time.Second), key+" gone")
	eventually(t, time.Second, "the hold is dropped", func() bool { return s.Stats().Holds == 0 })
}

func TestR30ReleaseOfACountIsReportedToTheCarrier(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for _, mode := range []string{"FAIR", "READ", "WRITE"} {
			a, b, key := connect(t, s), connect(t, other), newKey()
			var token int64
			for range 3 {
				token = a.token(key, "OWNER", "me", mode)
			}
			h := a.carrier.last(func(*hold.Hold) bool { return true })
			for n := int64(2); n > 0; n-- {
				want(t, b.do("LOCK.RELEASE", key, "TOKEN", strconv.FormatInt(token, 10)), ":0")
				eventually(t, time.Second, "the carrier's Leash knows", func() bool {
					return h.Details().Count == n
				})
			}
			s.receive(event.Text(event.Decremented, token, a.carrier.Name, key)) // a forged event: nobody has released
			want(t, a.do("LOCK.RELEASE", key), ":1")
			if len(a.losses) != 0 {
				t.Error("reported as a loss")
			}
		}
	})
}
