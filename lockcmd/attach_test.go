package lockcmd

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// attach runs an ATTACH that must succeed.
func (c *conn) attach(key, owner string, token int64) {
	c.t.Helper()
	want(c.t, c.do("LOCK.ATTACH", key, "OWNER", owner, "TOKEN", strconv.FormatInt(token, 10)),
		":"+strconv.FormatInt(token, 10))
}

func TestR4AttachMovesTheHold(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
		for _, where := range []*Service{s, other} {
			a, b, key := connect(t, s), connect(t, where), newKey()
			token := a.token(key, "OWNER", "me")
			a.token(key, "OWNER", "me")
			for _, wrong := range [][2]string{{"you", strconv.FormatInt(token, 10)}, {"me", "5"}} {
				want(t, b.do("LOCK.ATTACH", key, "OWNER", wrong[0], "TOKEN", wrong[1]), "-"+refusal.NotHeld)
			}
			a.attach(key, "me", token) // the same carrier again
			if len(a.moved) != 0 || a.carrier.Holds() != 1 {
				t.Fatal("ATTACH to the same carrier has an effect")
			}
			b.attach(key, "me", token)
			want(t, receive(t, a.moved, 3*time.Second), key) // R25: Leash closes the old connection
			a.carrier.End(Expire)
			eventually(t, time.Second, "the old carrier forgets", func() bool {
				return a.carrier.Holds() == 0 && !a.guarded.Load()
			})
			want(t, count(rdb, key, "me"), "2")
			want(t, b.do("LOCK.RELEASE", key), ":0")
			want(t, b.do("LOCK.RELEASE", key), ":1")
			if len(a.losses)+len(b.losses)+len(b.moved) != 0 {
				t.Error("reported as a loss")
			}
			want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", strconv.FormatInt(token, 10)), "-"+refusal.NotHeld)
		}
	})
}

func TestR28OnCloseExpireLeavesTheHoldForAttach(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := Config{WatchdogTimeout: 6 * time.Second}
		s, other := leash(t, rdb, cfg), leash(t, rdb, cfg)
		tests := make(map[string]func(*testing.T))
		for name, where := range map[string]*Service{"here": s, "elsewhere": other} {
			tests[name] = func(t *testing.T) {
				a, b, key := connect(t, s), connect(t, where), newKey()
				token := a.token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
				a.carrier.End(Release)
				if !exists(t, rdb, key) || a.carrier.Holds() != 0 {
					t.Fatal("the hold was released, or is still kept")
				}
				b.attach(key, "me", token)
				<-time.After(6500 * time.Millisecond)
				eventually(t, time.Second, "the attached hold is renewed", func() bool {
					return rdb.PTTL(context.Background(), key).Val() >= 4500*time.Millisecond
				})
				b.carrier.End(Release) // the hold keeps its terms after the move
				if !exists(t, rdb, key) {
					t.Fatal("the attached hold was released")
				}
				c := connect(t, s)
				c.attach(key, "me", token)
				want(t, c.do("LOCK.RELEASE", key), ":1")
			}
		}
		runParallel(t, tests)
		if n := s.Stats().Holds + other.Stats().Holds; n != 0 {
			t.Errorf("%d holds are kept", n)
		}
		a, key := connect(t, s), newKey()
		a.token(key, "OWNER", "me", "ONCLOSE", "release")
		a.carrier.End(Release)
		if exists(t, rdb, key) {
			t.Error("ONCLOSE RELEASE did not release")
		}
	})
}

func TestR28OnCloseExpireRunsOut(t *testing.T) {
	t.Parallel() // mostly waiting
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{WatchdogTimeout: 6 * time.Second}), newKey()
		a, b := connect(t, s), connect(t, s)
		a.token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
		a.carrier.End(Release)
		want(t, b.do("LOCK.ACQUIRE", key), "$-1")
		b.token(key, "BLOCK", "0")
	})
}

func TestR4AttachOfALease(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := leash(t, rdb, Config{}), leash(t, rdb, Config{}), newKey()
		a, b := connect(t, s), connect(t, other)
		token := a.token(key, "OWNER", "me", "LEASE", "6000")
		b.attach(key, "me", token)
		if left := rdb.PTTL(context.Background(), key).Val(); left > 6*time.Second {
			t.Errorf("attaching has prolonged the lease to %v", left)
		}
		eventually(t, 5*time.Second, "the lease is over", func() bool { return !exists(t, rdb, key) })
		eventually(t, time.Second, "the hold is dropped", func() bool { return b.carrier.Holds() == 0 })
		if len(b.losses) != 0 {
			t.Error("the end of a lease was reported as a loss")
		}
	})
}

func TestR11OldCarrierReleasesNothing(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} {
		s, straight, p := faulty(t, Config{UpstreamTimeout: 5 * time.Second})
		where := straight
		if same {
			where = s
		}
		ctx := context.Background()

		// The old connection ends after ATTACH. Its Leash has not received the event of the move
		// yet.
		s.Events.Own = "nowhere"
		a, b, key := connect(t, s), connect(t, where), newKey()
		token := a.token(key, "OWNER", "me")
		b.attach(key, "me", token)
		a.carrier.End(Release)
		want(t, count(straight.Redis.Redis, key, "me"), "1")

		// The old carrier sent a release and a renewal before ATTACH. They reach Redis after it.
		c, key := connect(t, s), newKey()
		token = c.token(key, "OWNER", "me")
		release := c.releaseOf(script.Plain, key, token, 99)
		release.End.What = "all"
		d := connect(t, where)
		d.attach(key, "me", token)
		renewal := &transport.Call{
			Script: script.Plain.Renew, Keys: []string{key},
			Args: transport.Words("90000", "me", script.RecordPrefix(token, c.carrier.Name)),
		}
		if n, err := straight.Redis.AskList(renewal, straight.deadline(), "i"); err != nil || n[0] != 0 {
			t.Fatalf("the renewal: %v, %v", n, err)
		}
		if _, err := straight.Redis.Release(release, straight.deadline()); err != nil {
			t.Fatal(err)
		}
		want(t, count(straight.Redis.Redis, key, "me"), "1")
		if left := straight.Redis.Redis.PTTL(ctx, key).Val(); left > 30*time.Second {
			t.Error("a late renewal of the old carrier has taken effect")
		}
		want(t, d.do("LOCK.RELEASE", key), ":1")

		// The old connection ends, and its release is still in progress when ATTACH starts.
		e, key := connect(t, s), newKey()
		token = e.token(key, "OWNER", "me")
		fault := p.HoldBefore(running(script.ReleaseScript, key))
		ended := make(chan struct{})
		go func() { e.carrier.End(Release); close(ended) }()
		receive(t, fault.Triggered(), time.Second)
		if !same { // on one Leash, ATTACH waits for the release
			f := connect(t, where)
			f.attach(key, "me", token)
			fault.Release()
			<-ended
			want(t, count(straight.Redis.Redis, key, "me"), "1")
			continue
		}
		f := connect(t, where)
		reply := f.start("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", strconv.FormatInt(token, 10))
		fault.Release()
		<-ended
		want(t, receive(t, reply, 6*time.Second), "-"+refusal.NotHeld)
	}
}

func TestR7LostReplyOfAttach(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{})
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		for _, from := range []*Service{s, straight} {
			a, b, key := connect(t, from), connect(t, s), newKey()
			token := a.token(key, "OWNER", "me")
			fault := arm(running(script.MoveScript, key))
			b.attach(key, "me", token)
			if fault.Count() != 1 {
				t.Fatal("nothing was lost")
			}
			want(t, receive(t, a.moved, 3*time.Second), key)
			want(t, b.do("LOCK.RELEASE", key), ":1")
		}
	}
}

func TestR26UnansweredAttachIsRepeated(t *testing.T) {
	t.Parallel()
	tests := make(map[string]func(*testing.T))
	for _, ran := range []bool{true, false} {
		for _, end := range []bool{false, true} {
			for _, away := range []bool{false, true} {
				tests[fmt.Sprint(ran, end, away)] = func(t *testing.T) {
					s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
					from := s
					if away {
						from = straight
					}
					a, b, key := connect(t, from), connect(t, s), newKey()
					token := a.token(key, "OWNER", "me")
					fault := drop(p, ran)(running(script.MoveScript, key), faultproxy.Always())
					want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", strconv.FormatInt(token, 10)),
						"-"+refusal.AttachLater)
					if end {
						b.carrier.End(Release)
					}
					fault.Disarm()
					want(t, receive(t, a.moved, 3*time.Second), key)
					if end {
						eventually(t, 3*time.Second, "it ends with its connection", func() bool {
							return !exists(t, straight.Redis.Redis, key)
						})
						return
					}
					eventually(t, 3*time.Second, "the hold is carried", func() bool { return b.carrier.Holds() == 1 })
					b.attach(key, "me", token)
					want(t, b.do("LOCK.RELEASE", key), ":1")
				}
			}
		}
	}
	runParallel(t, tests)
}

func TestR7LateAttachDoesNothing(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: shortTimeout})
	a, b, key := connect(t, straight), connect(t, s), newKey()
	token := a.token(key, "OWNER", "me")
	late := p.HoldBefore(running(script.MoveScript, key))
	b.attach(key, "me", token) // the repeated ATTACH
	<-late.Triggered()
	a.carrier = straight.NewCarrier(lastConn.Add(1), Client{Name: testClientName}, a, a)
	a.attach(key, "me", token)
	late.Release()
	<-time.After(100 * time.Millisecond)
	want(t, a.do("LOCK.RELEASE", key), ":1")
}

func TestR31AttachAfterTheLeashWasKilled(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		first, kill := killableLeash(t, rdb, Config{})
		second, killSecond := killableLeash(t, rdb, Config{})
		third := leash(t, rdb, Config{})
		a, b, c, key := connect(t, first), connect(t, second), connect(t, third), newKey()
		token := a.token(key, "OWNER", "me")
		wantRenewedBy := func(s *Service) {
			rdb.PExpire(t.Context(), key, 10*time.Second)
			s.Watchdog.CheckAll()
			eventually(t, time.Second, "it is renewed", func() bool {
				return rdb.PTTL(t.Context(), key).Val() > 15*time.Second
			})
		}
		kill()
		b.attach(key, "me", token)
		wantRenewedBy(second)
		killSecond()
		c.attach(key, "me", token)
		wantRenewedBy(third)
		want(t, connect(t, third).do("LOCK.ACQUIRE", key), "$-1")
		want(t, c.do("LOCK.RELEASE", key), ":1")
	})
}

func TestR26AttachFindsItsOldHoldLost(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := leash(t, rdb, Config{}), newKey()
		a := connect(t, s)
		token := a.token(key, "OWNER", "me")
		rdb.Del(context.Background(), key)
		want(t, a.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", strconv.FormatInt(token, 10)),
			"-"+msgLost(key, "gone"))
		want(t, receive(t, a.losses, time.Second), key+" gone")
	})
}

func TestR4AttachBackAndForth(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	s1, s2 := leash(t, rdb, Config{}), leash(t, rdb, Config{})
	a, b, key := connect(t, s1), connect(t, s2), newKey()
	token := a.token(key, "OWNER", "me")
	for range 60 {
		// the same carriers are used again, which real connections never do
		for _, c := range []*conn{b, a} {
			c.attach(key, "me", token)
		}
	}
	if len(a.losses)+len(b.losses) > 0 {
		t.Fatal("a moved hold was reported as a loss")
	}
	want(t, a.do("LOCK.RELEASE", key), ":1")
}
