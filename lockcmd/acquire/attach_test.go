package acquire_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

func TestR4AttachMovesTheHold(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
		for _, where := range []*lockcmd.Service{s, other} {
			a, b, key := locktest.Connect(t, s), locktest.Connect(t, where), locktest.NewKey()
			token := a.Token(key, "OWNER", "me")
			a.Token(key, "OWNER", "me")
			for _, wrong := range [][2]string{{"you", strconv.FormatInt(token, 10)}, {"me", "5"}} {
				locktest.Want(t, b.Do("LOCK.ATTACH", key, "OWNER", wrong[0], "TOKEN", wrong[1]), "-"+refusal.NotHeld)
			}
			a.Attach(key, "me", token) // the same carrier again
			if len(a.Moved) != 0 || a.Carrier.Holds() != 1 {
				t.Fatal("ATTACH to the same carrier has an effect")
			}
			b.Attach(key, "me", token)
			locktest.Want(t, locktest.Receive(t, a.Moved, 3*time.Second), key) // R25: Leash closes the old connection
			a.Carrier.End(lockcmd.Expire)
			locktest.Eventually(t, time.Second, "the old carrier forgets", func() bool {
				return a.Carrier.Holds() == 0 && !a.Guarded.Load()
			})
			locktest.Want(t, locktest.Count(rdb, key, "me"), "2")
			locktest.Want(t, b.Do("LOCK.RELEASE", key), ":0")
			locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
			if len(a.Losses)+len(b.Losses)+len(b.Moved) != 0 {
				t.Error("reported as a loss")
			}
			locktest.Want(t, b.Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", strconv.FormatInt(token, 10)),
				"-"+refusal.NotHeld)
		}
	})
}

func TestR28OnCloseExpireLeavesTheHoldForAttach(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		cfg := lockcmd.Config{WatchdogTimeout: 6 * time.Second}
		s, other := locktest.Start(t, rdb, cfg), locktest.Start(t, rdb, cfg)
		tests := make(map[string]func(*testing.T))
		for name, where := range map[string]*lockcmd.Service{"here": s, "elsewhere": other} {
			tests[name] = func(t *testing.T) {
				a, b, key := locktest.Connect(t, s), locktest.Connect(t, where), locktest.NewKey()
				token := a.Token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
				a.Carrier.End(lockcmd.Release)
				if !locktest.Exists(t, rdb, key) || a.Carrier.Holds() != 0 {
					t.Fatal("the hold was released, or is still kept")
				}
				b.Attach(key, "me", token)
				<-time.After(6500 * time.Millisecond)
				locktest.Eventually(t, time.Second, "the attached hold is renewed", func() bool {
					return rdb.PTTL(context.Background(), key).Val() >= 4500*time.Millisecond
				})
				b.Carrier.End(lockcmd.Release) // the hold keeps its terms after the move
				if !locktest.Exists(t, rdb, key) {
					t.Fatal("the attached hold was released")
				}
				c := locktest.Connect(t, s)
				c.Attach(key, "me", token)
				locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
			}
		}
		locktest.RunParallel(t, tests)
		if n := s.Stats().Holds + other.Stats().Holds; n != 0 {
			t.Errorf("%d holds are kept", n)
		}
		a, key := locktest.Connect(t, s), locktest.NewKey()
		a.Token(key, "OWNER", "me", "ONCLOSE", "release")
		a.Carrier.End(lockcmd.Release)
		if locktest.Exists(t, rdb, key) {
			t.Error("ONCLOSE RELEASE did not release")
		}
	})
}

func TestR28OnCloseExpireRunsOut(t *testing.T) {
	t.Parallel() // mostly waiting
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 6 * time.Second}), locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, s)
		a.Token(key, "OWNER", "me", "ONCLOSE", "EXPIRE")
		a.Carrier.End(lockcmd.Release)
		locktest.Want(t, b.Do("LOCK.ACQUIRE", key), "$-1")
		b.Token(key, "BLOCK", "0")
	})
}

func TestR4AttachOfALease(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{}),
			locktest.NewKey()
		a, b := locktest.Connect(t, s), locktest.Connect(t, other)
		token := a.Token(key, "OWNER", "me", "LEASE", "6000")
		b.Attach(key, "me", token)
		if left := rdb.PTTL(context.Background(), key).Val(); left > 6*time.Second {
			t.Errorf("attaching has prolonged the lease to %v", left)
		}
		locktest.Eventually(t, 5*time.Second, "the lease is over", func() bool { return !locktest.Exists(t, rdb, key) })
		locktest.Eventually(t, time.Second, "the hold is dropped", func() bool { return b.Carrier.Holds() == 0 })
		if len(b.Losses) != 0 {
			t.Error("the end of a lease was reported as a loss")
		}
	})
}

func TestR11OldCarrierReleasesNothing(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} {
		s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: 5 * time.Second})
		where := straight
		if same {
			where = s
		}
		ctx := context.Background()

		// The old connection ends after ATTACH. Its Leash has not received the event of the move
		// yet.
		s.Events.Own = "nowhere"
		a, b, key := locktest.Connect(t, s), locktest.Connect(t, where), locktest.NewKey()
		token := a.Token(key, "OWNER", "me")
		b.Attach(key, "me", token)
		a.Carrier.End(lockcmd.Release)
		locktest.Want(t, locktest.Count(locktest.RedisOf(straight), key, "me"), "1")

		// The old carrier sent a release and a renewal before ATTACH. They reach Redis after it.
		c, key := locktest.Connect(t, s), locktest.NewKey()
		token = c.Token(key, "OWNER", "me")
		release := c.ReleaseOf(script.Plain, key, token, 99)
		release.End.What = "all"
		d := locktest.Connect(t, where)
		d.Attach(key, "me", token)
		renewal := &transport.Call{
			Script: script.Plain.Renew, Keys: []string{key},
			Args: transport.Words("90000", "me", script.RecordPrefix(token, c.Carrier.Name)),
		}
		if n, err := straight.Redis.AskList(renewal, straight.Redis.Deadline(), "i"); err != nil || n[0] != 0 {
			t.Fatalf("the renewal: %v, %v", n, err)
		}
		if _, err := straight.Redis.Release(release, straight.Redis.Deadline()); err != nil {
			t.Fatal(err)
		}
		locktest.Want(t, locktest.Count(locktest.RedisOf(straight), key, "me"), "1")
		if left := locktest.RedisOf(straight).PTTL(ctx, key).Val(); left > 30*time.Second {
			t.Error("a late renewal of the old carrier has taken effect")
		}
		locktest.Want(t, d.Do("LOCK.RELEASE", key), ":1")

		// The old connection ends, and its release is still in progress when ATTACH starts.
		e, key := locktest.Connect(t, s), locktest.NewKey()
		token = e.Token(key, "OWNER", "me")
		fault := p.HoldBefore(locktest.Running(script.ReleaseScript, key))
		ended := make(chan struct{})
		go func() { e.Carrier.End(lockcmd.Release); close(ended) }()
		locktest.Receive(t, fault.Triggered(), time.Second)
		if !same { // on one Leash, ATTACH waits for the release
			f := locktest.Connect(t, where)
			f.Attach(key, "me", token)
			fault.Release()
			<-ended
			locktest.Want(t, locktest.Count(locktest.RedisOf(straight), key, "me"), "1")
			continue
		}
		f := locktest.Connect(t, where)
		reply := f.Start("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", strconv.FormatInt(token, 10))
		fault.Release()
		<-ended
		locktest.Want(t, locktest.Receive(t, reply, 6*time.Second), "-"+refusal.NotHeld)
	}
}

func TestR7LostReplyOfAttach(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		for _, from := range []*lockcmd.Service{s, straight} {
			a, b, key := locktest.Connect(t, from), locktest.Connect(t, s), locktest.NewKey()
			token := a.Token(key, "OWNER", "me")
			fault := arm(locktest.Running(script.MoveScript, key))
			b.Attach(key, "me", token)
			if fault.Count() != 1 {
				t.Fatal("nothing was lost")
			}
			locktest.Want(t, locktest.Receive(t, a.Moved, 3*time.Second), key)
			locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
		}
	}
}

// TestR30HoldThatMovesOnAtOnce: A hold moves to a connection, and on to another one or to its end
// before the connection's Leash knows that it has the hold. The event about that comes too early.
func TestR30HoldThatMovesOnAtOnce(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	for _, command := range []string{"LOCK.ATTACH", "LOCK.ACQUIRE"} {
		for _, released := range []bool{false, true} {
			a, b, c := locktest.Connect(t, straight), locktest.Connect(t, s), locktest.Connect(t, straight)
			key := locktest.NewKey()
			token := a.Token(key, "OWNER", "me", "ID", "1", "TTL", "3600000")
			text := strconv.FormatInt(token, 10)
			proof := map[string][]string{"LOCK.ATTACH": {"TOKEN", text}, "LOCK.ACQUIRE": {"ID", "1"}}[command]
			c.Attach(key, "me", token) // from now on Redis knows the script
			late := p.HoldAfter(locktest.Running(script.MoveScript, key))
			reply := b.Start(append([]string{command, key, "OWNER", "me"}, proof...)...)
			<-late.Triggered()
			if a.Attach(key, "me", token); released {
				locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			}
			<-time.After(100 * time.Millisecond) // the event
			late.Release()
			locktest.Want(t, locktest.Receive(t, reply, 5*time.Second), ":"+text)
			locktest.Eventually(t, 10*time.Second, "the hold is not here any more",
				func() bool { return b.Carrier.Holds() == 0 })
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
					s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: locktest.ShortTimeout})
					from := s
					if away {
						from = straight
					}
					a, b, key := locktest.Connect(t, from), locktest.Connect(t, s), locktest.NewKey()
					token := a.Token(key, "OWNER", "me")
					fault := locktest.Drop(p, ran)(locktest.Running(script.MoveScript, key), faultproxy.Always())
					locktest.Want(t, b.Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", strconv.FormatInt(token, 10)),
						"-"+refusal.AttachLater)
					if end {
						b.Carrier.End(lockcmd.Release)
					}
					fault.Disarm()
					locktest.Want(t, locktest.Receive(t, a.Moved, 3*time.Second), key)
					if end {
						locktest.Eventually(t, 3*time.Second, "it ends with its connection", func() bool {
							return !locktest.Exists(t, locktest.RedisOf(straight), key)
						})
						return
					}
					locktest.Eventually(t, 3*time.Second, "the hold is carried",
						func() bool { return b.Carrier.Holds() == 1 })
					b.Attach(key, "me", token)
					locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
				}
			}
		}
	}
	locktest.RunParallel(t, tests)
}

func TestR7LateAttachDoesNothing(t *testing.T) {
	t.Parallel()
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{})
	a, b, key := locktest.Connect(t, straight), locktest.Connect(t, s), locktest.NewKey()
	token := a.Token(key, "OWNER", "me")
	late := p.HoldBefore(locktest.Running(script.MoveScript, key))
	b.Attach(key, "me", token) // the repeated ATTACH
	<-late.Triggered()
	a.Carrier = straight.NewCarrier(locktest.LastConn.Add(1), lockcmd.Client{Name: locktest.TestClientName}, a, a)
	a.Attach(key, "me", token)
	late.Release()
	<-time.After(100 * time.Millisecond)
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
}

func TestR31AttachAfterTheLeashWasKilled(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		first, kill := locktest.StartKillable(t, rdb, lockcmd.Config{})
		second, killSecond := locktest.StartKillable(t, rdb, lockcmd.Config{})
		third := locktest.Start(t, rdb, lockcmd.Config{})
		a, b, c, key := locktest.Connect(t, first), locktest.Connect(t, second), locktest.Connect(t, third),
			locktest.NewKey()
		token := a.Token(key, "OWNER", "me")
		wantRenewedBy := func(s *lockcmd.Service) {
			rdb.PExpire(t.Context(), key, 10*time.Second)
			s.Watchdog.CheckAll()
			locktest.Eventually(t, time.Second, "it is renewed", func() bool {
				return rdb.PTTL(t.Context(), key).Val() > 15*time.Second
			})
		}
		kill()
		b.Attach(key, "me", token)
		wantRenewedBy(second)
		killSecond()
		c.Attach(key, "me", token)
		wantRenewedBy(third)
		locktest.Want(t, locktest.Connect(t, third).Do("LOCK.ACQUIRE", key), "$-1")
		locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
	})
}

func TestR26AttachFindsItsOldHoldLost(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, key := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey()
		a := locktest.Connect(t, s)
		token := a.Token(key, "OWNER", "me")
		rdb.Del(context.Background(), key)
		locktest.Want(t, a.Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", strconv.FormatInt(token, 10)),
			"-"+locktest.MsgLost(key, "gone"))
		locktest.Want(t, locktest.Receive(t, a.Losses, time.Second), key+" gone")
	})
}

func TestR4AttachBackAndForth(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	s1, s2 := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
	a, b, key := locktest.Connect(t, s1), locktest.Connect(t, s2), locktest.NewKey()
	token := a.Token(key, "OWNER", "me")
	for range 60 {
		// the same carriers are used again, which real connections never do
		for _, c := range []*locktest.Client{b, a} {
			c.Attach(key, "me", token)
		}
	}
	if len(a.Losses)+len(b.Losses) > 0 {
		t.Fatal("a moved hold was reported as a loss")
	}
	locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
}
