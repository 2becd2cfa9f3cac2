package hold_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// shortLease ends during a test, and leaves a busy machine 3 s for what comes before.
const shortLease = 4 * time.Second

// delayedLease returns a connection with a shortLease on key. Redis received the acquire 1 s late,
// so it counts the lease from later than Leash does. The watchdog's checks do not reach Redis.
func delayedLease(t *testing.T, s *lockcmd.Service, p *faultproxy.Proxy, key string,
	mode ...string) (a *locktest.Client,
	sent time.Time, results *faultproxy.Fault) {
	a = locktest.Connect(t, s)
	// Redis knows the scripts now.
	a.Token(append([]string{key + ":first", "LEASE", "20000"}, mode...)...)
	a.Ms(20000, "LOCK.EXTEND", key+":first", "20000")
	locktest.Want(t, a.Do("LOCK.RELEASE", key+":first"), ":1")
	acquire, check := script.AcquireScript, script.RenewScript
	if len(mode) > 0 {
		acquire, check = script.Read.Acquire, script.Read.Renew
	}
	results = p.HoldBefore(locktest.Running(check, key), faultproxy.Always())
	late := p.HoldBefore(locktest.Running(acquire, key))
	sent = time.Now()
	lease := fmt.Sprint(shortLease.Milliseconds())
	reply := a.Start(append([]string{"LOCK.ACQUIRE", key, "OWNER", "me", "LEASE", lease}, mode...)...)
	<-late.Triggered()
	time.Sleep(time.Second)
	late.Release()
	locktest.WantPrefix(t, locktest.Receive(t, reply, locktest.Soon), ":")
	return a, sent, results
}

// TestR24LateReplyOfALeaseExtension: Redis granted late, so it counts the lease from later than
// Leash does. A request extends the lease in time, but its reply arrives after the lease has ended
// by Leash's count.
func TestR24LateReplyOfALeaseExtension(t *testing.T) {
	t.Parallel() // mostly waiting
	tests := make(map[string]func(*testing.T))
	for _, mode := range [][]string{nil, {"READ"}} {
		for name, args := range map[string][]string{"extended": {"LOCK.EXTEND", "", "60000"},
			"entered again": {"LOCK.ACQUIRE", "", "OWNER", "me", "LEASE", "60000"}} {
			tests[fmt.Sprint(name, mode)] = func(t *testing.T) {
				// a connection of its own: a held reply also holds those behind it
				s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: 2 * shortLease})
				key, args := locktest.NewKey(), slices.Clone(args)
				a, sent, _ := delayedLease(t, s, p, key, mode...)
				args[1] = key
				delayed := script.ExtendScript
				switch {
				case args[0] == "LOCK.ACQUIRE" && mode == nil:
					delayed = script.AcquireScript
				case args[0] == "LOCK.ACQUIRE":
					delayed, args = script.Read.Acquire, append(args, "READ")
				case mode != nil:
					delayed = script.Read.Extend
				}
				late := p.HoldAfter(locktest.Running(delayed, key))
				reply := a.Start(args...)
				<-late.Triggered()
				time.Sleep(time.Until(sent.Add(shortLease + 100*time.Millisecond)))
				if left := locktest.RedisOf(straight).PTTL(t.Context(), key).Val(); left < 15*time.Second {
					t.Fatalf("Redis has not done it: %v left", left)
				}
				late.Release()
				locktest.WantPrefix(t, locktest.Receive(t, reply, locktest.Soon), ":")
				if left, _ := strconv.Atoi(a.Do("LOCK.TTL", key)[1:]); left < 15000 {
					t.Errorf("%d ms are left", left)
				}
				if n := a.Carrier.Holds(); n != 1 {
					t.Errorf("the connection has %d holds", n)
				}
				locktest.Want(t, a.Do("LOCK.RELEASE", key, "ALL"), ":1")
				if n := locktest.RedisOf(straight).Exists(t.Context(), key).Val(); n != 0 {
					t.Error("the lock was not released")
				}
			}
		}
	}
	locktest.RunParallel(t, tests)
}

// TestR24UnknownExtendOfALeaseThatIsOver: The lease has ended by Leash's count. Leash asks Redis
// whether an EXTEND with an unknown outcome was done.
func TestR24UnknownExtendOfALeaseThatIsOver(t *testing.T) {
	t.Parallel() // mostly waiting
	tests := make(map[string]func(*testing.T))
	for name, arm := range map[string]func(*faultproxy.Proxy, faultproxy.Match,
		...faultproxy.Option) *faultproxy.Fault{
		"done": (*faultproxy.Proxy).HoldAfter, "not done": (*faultproxy.Proxy).HoldBefore,
	} {
		tests[name] = func(t *testing.T) {
			s, straight, p := locktest.StartFaulty(t,
				lockcmd.Config{UpstreamTimeout: shortLease + 200*time.Millisecond})
			key := locktest.NewKey()
			a, _, results := delayedLease(t, s, p, key)
			fault := arm(p, locktest.Running(script.ExtendScript, key), faultproxy.Always())
			locktest.Want(t, a.Do("LOCK.EXTEND", key, "60000"), "-"+refusal.ExtendUnknown)
			locktest.Want(t, a.Do("LOCK.TTL", key), ":-2") // the outcome is unknown
			fault.Disarm()
			results.Disarm()
			if name == "done" {
				locktest.Eventually(t, locktest.Soon, "Redis is believed",
					func() bool { return a.Do("LOCK.TTL", key) > ":15000" })
				locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
				if n := locktest.RedisOf(straight).Exists(t.Context(), key).Val(); n != 0 {
					t.Error("the lock was not released")
				}
			}
			locktest.Eventually(t, locktest.Soon, "nothing is left", func() bool { return a.Carrier.Holds() == 0 })
			if len(a.Losses) != 0 {
				t.Error("the end of a lease was reported as a loss")
			}
		}
	}
	locktest.RunParallel(t, tests)
}
