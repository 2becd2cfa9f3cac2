package release_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// killedLeash is a Leash that is killed while commands of its clients are in progress. straight is
// another Leash of the same Redis.
type killedLeash struct {
	t           *testing.T
	s, straight *lockcmd.Service
	arm         func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault
	commands    []*pendingCommand
}

// pendingCommand is a command without a reply. Redis may have run it or not.
type pendingCommand struct {
	name    string
	scripts []*transport.Script // the fault blocks one of these when it is sent for key
	key     string
	c       *locktest.Client // a client of the killed Leash
	args    []string
	next    []string // how a client of the other Leash gets the lock, or all permits
	after   func()   // what to do after the kill; may be nil

	fault *faultproxy.Fault
	reply <-chan string
}

// begin sends all commands. It returns when none of them can get a reply any more.
func (k *killedLeash) begin() {
	k.t.Helper()
	for _, u := range k.commands {
		for _, sc := range u.scripts { // otherwise Redis would reply NOSCRIPT
			if err := locktest.RedisOf(k.straight).ScriptLoad(k.t.Context(), sc.Source).Err(); err != nil {
				k.t.Fatal(err)
			}
		}
		u.fault = k.arm(func(request []byte) bool {
			return slices.ContainsFunc(u.scripts, func(sc *transport.Script) bool {
				return locktest.Running(sc, u.key)(request) && !onlyAsksForTheOwner(sc, request)
			})
		}, faultproxy.Always())
	}
	for _, u := range k.commands {
		u.reply = u.c.Start(u.args...)
	}
	for _, u := range k.commands {
		locktest.Eventually(k.t, 5*time.Second, u.name+" is under way", func() bool { return u.fault.Count() > 0 })
	}
}

// onlyAsksForTheOwner reports whether the script only asks which carrier holds the permit to
// release.
func onlyAsksForTheOwner(sc *transport.Script, request []byte) bool {
	return sc == script.PermitRevokeScript && string(faultproxy.Args(request)[2]) == "3"
}

func (k *killedLeash) add(u pendingCommand) { k.commands = append(k.commands, &u) }

// TestKilledAtAnyPoint: A Leash is killed at every script that it sends, before or after Redis runs
// it. What its clients held is free after a TTL. A client of another Leash keeps its hold, unless
// it was released or moved. Nothing is left in Redis.
func TestKilledAtAnyPoint(t *testing.T) {
	t.Parallel()
	locktest.TakesLong(t)
	killed := func(ran bool) func(*testing.T) {
		return func(t *testing.T) {
			// a dead FAIR waiter is soon detected
			brief := func(s *lockcmd.Service) { s.Waits.FairTimeout = 2 * time.Second }
			s, straight, p := locktest.StartFaulty(t,
				lockcmd.Config{WatchdogTimeout: 16 * time.Second, UpstreamTimeout: 20 * time.Second},
				brief)
			k := &killedLeash{t: t, s: s, straight: straight, arm: p.DropBefore}
			if ran {
				k.arm = p.DropAfter
			}
			for _, m := range script.Modes {
				k.ofMode(m, ran)
			}
			k.ofWaiters()
			k.ofSeveral()
			k.ofPermits(ran)
			k.begin()
			p.Close()
			for _, u := range k.commands {
				if u.after != nil {
					u.after()
				}
			}
			k.succeed()
			for _, u := range k.commands {
				u.c.Gone()
				locktest.Receive(t, u.reply, 5*time.Second)
			}
		}
	}
	locktest.RunParallel(t, map[string]func(*testing.T){"before": killed(false), "after": killed(true)})
}

// succeed lets other clients acquire everything at once.
func (k *killedLeash) succeed() {
	k.t.Helper()
	conns, replies := make([]*locktest.Client, len(k.commands)), make([]<-chan string, len(k.commands))
	for i, u := range k.commands {
		conns[i] = locktest.Connect(k.t, k.straight)
		replies[i] = conns[i].Start(append(u.next, "BLOCK", "0")...)
	}
	for i, u := range k.commands {
		if reply := locktest.Receive(k.t, replies[i], 10*time.Second); reply[0] != ':' && reply[0] != '*' &&
			reply[:3] != "$32" {
			k.t.Errorf("%s: got %q", u.name, reply)
		}
		conns[i].Carrier.End(lockcmd.Release)
		names := append([]string{u.key, script.RecordsKey(u.key)}, script.QueueKeys(u.key)...)
		if u.next[0] == "SEM.ACQUIRE" {
			locktest.Eventually(k.t, 10*time.Second, u.name+": all permits are back", func() bool {
				return locktest.Get(k.t, k.straight, u.key) == "2"
			})
			names = append(names[1:], script.PermitsKey(u.key))
		}
		for _, name := range names {
			locktest.Eventually(k.t, 10*time.Second, u.name+": "+name+" is gone", func() bool {
				return !locktest.Exists(k.t, locktest.RedisOf(k.straight), name)
			})
		}
	}
}

// ofMode adds commands about locks of one mode.
func (k *killedLeash) ofMode(m *script.Mode, ran bool) {
	t, next := k.t, func(key string) []string {
		return append([]string{"LOCK.ACQUIRE", key}, locktest.ExclusiveOptions(m)...)
	}
	acquire := func(key string, more ...string) []string {
		return append([]string{"LOCK.ACQUIRE", key, m.Option}, more...)
	}
	if m == script.Plain {
		acquire = func(key string, more ...string) []string { return append([]string{"LOCK.ACQUIRE", key}, more...) }
	}
	take := func(c *locktest.Client, key string, more ...string) string {
		t.Helper()
		return strconv.FormatInt(locktest.TokenOf(t, c.Do(acquire(key, more...)...)), 10)
	}
	mine := func(what string, args func(c *locktest.Client, key string) []string, scripts ...*transport.Script) {
		c, key := locktest.Connect(t, k.s), locktest.NewKey()
		k.add(pendingCommand{name: what + " " + m.Name, scripts: scripts, key: key, c: c, args: args(c, key),
			next: next(key)})
	}
	// the hold belongs to the other Leash
	theirs := func(what string, sc *transport.Script, args func(key, token string) []string) {
		holder, c, key := locktest.Connect(t, k.straight), locktest.Connect(t, k.s), locktest.NewKey()
		token := take(holder, key, "OWNER", "me")
		after := func() {
			reply, wanted := holder.Do("LOCK.RELEASE", key),
				map[bool]string{false: ":1", true: "-" + refusal.NotHeld}[ran]
			if reply != wanted || len(holder.Losses) != 0 {
				t.Errorf("%s %s: its holder was answered %q, want %q, and told of %d losses", what, m.Name, reply,
					wanted, len(holder.Losses))
			}
		}
		k.add(pendingCommand{name: what + " " + m.Name, scripts: []*transport.Script{sc}, key: key, c: c,
			args: args(key, token), next: next(key), after: after})
	}
	mine("ACQUIRE", func(_ *locktest.Client, key string) []string { return acquire(key) }, m.Acquire)
	mine("ACQUIRE again", func(c *locktest.Client, key string) []string {
		take(c, key, "OWNER", "me")
		return acquire(key, "OWNER", "me")
	}, m.Acquire)
	mine("RELEASE", func(c *locktest.Client, key string) []string {
		take(c, key)
		return []string{"LOCK.RELEASE", key}
	}, m.Release)
	mine("RELEASE to a waiter", func(c *locktest.Client, key string) []string {
		take(c, key)
		waiter := locktest.Connect(t, k.s)
		waiter.Await(k.s, 1, key, append(locktest.ExclusiveOptions(m), "BLOCK", "0")...)
		t.Cleanup(waiter.Gone)
		return []string{"LOCK.RELEASE", key}
	}, m.Release, m.Handover)
	mine("EXTEND", func(c *locktest.Client, key string) []string {
		take(c, key, "LEASE", "16000")
		return []string{"LOCK.EXTEND", key, "8000"}
	}, m.Extend)
	theirs("RELEASE from elsewhere", m.Revoke, func(key, token string) []string {
		return []string{"LOCK.RELEASE", key, "TOKEN", token}
	})
	theirs("ATTACH", m.Move, func(key, token string) []string {
		return []string{"LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token}
	})
}

// ofWaiters adds commands that wait in a FAIR queue, or are about to enter it.
func (k *killedLeash) ofWaiters() {
	holder, c, key := locktest.Connect(k.t, k.straight), locktest.Connect(k.t, k.s), locktest.NewKey()
	holder.Token(key)
	after := func() { locktest.Want(k.t, holder.Do("LOCK.RELEASE", key), ":1") }
	k.add(pendingCommand{
		name: "FAIR waiter", scripts: []*transport.Script{script.AcquireFairScript}, key: key, c: c,
		args: []string{"LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0"},
		next: []string{"LOCK.ACQUIRE", key, "FAIR"}, after: after,
	})
}

// ofSeveral adds commands about several keys. The fault stops them at the second key.
func (k *killedLeash) ofSeveral() {
	keys := locktest.NewKeys(2)
	take := locktest.Several("LOCK.MACQUIRE", keys)
	k.add(pendingCommand{name: "MACQUIRE", scripts: []*transport.Script{script.AcquireScript}, key: keys[1],
		c: locktest.Connect(k.t, k.s), args: take, next: take})
	keys = locktest.NewKeys(2)
	c := locktest.Connect(k.t, k.s)
	take = locktest.Several("LOCK.MACQUIRE", keys)
	locktest.TokensOf(k.t, c.Do(take...), 2)
	k.add(pendingCommand{
		name: "MRELEASE", scripts: []*transport.Script{script.ReleaseScript}, key: keys[1], c: c,
		args: locktest.Several("LOCK.MRELEASE", keys), next: take,
	})
}

// ofPermits adds commands about semaphores of two permits.
func (k *killedLeash) ofPermits(ran bool) {
	t, next := k.t, func(key string) []string { return []string{"SEM.ACQUIRE", key, "COUNT", "2"} }
	key, c := locktest.Semaphore(t, k.straight, 2), locktest.Connect(t, k.s)
	k.add(pendingCommand{name: "SEM.ACQUIRE", scripts: []*transport.Script{script.PermitAcquireScript}, key: key, c: c,
		args: next(key), next: next(key)})
	key, c = locktest.Semaphore(t, k.straight, 2), locktest.Connect(t, k.s)
	c.Permits(2, key, "COUNT", "2")
	k.add(pendingCommand{
		name: "SEM.RELEASE", scripts: []*transport.Script{script.PermitReleaseScript}, key: key, c: c,
		args: []string{"SEM.RELEASE", key}, next: next(key),
	})
	for what, sc := range map[string]*transport.Script{"SEM.RELEASE from elsewhere": script.PermitRevokeScript,
		"SEM.ACQUIRE repeated elsewhere": script.PermitMoveScript} {
		key, holder, c := locktest.Semaphore(t, k.straight, 2), locktest.Connect(t, k.straight),
			locktest.Connect(t, k.s)
		args := []string{"SEM.RELEASE", key, holder.Permit(key, "ID", "r")}
		if sc == script.PermitMoveScript {
			args = []string{"SEM.ACQUIRE", key, "ID", "r"}
		}
		after := func() {
			if ran && sc == script.PermitMoveScript { // before that, it gives back the permit of the other
				locktest.Eventually(t, locktest.Soon, "its Leash knows that it has moved",
					func() bool { return holder.Carrier.Holds() == 0 })
			}
			reply, wanted := holder.Do("SEM.RELEASE", key),
				map[bool]string{false: ":1", true: "-" + refusal.NoPermit}[ran]
			if reply != wanted || len(holder.Losses) != 0 {
				t.Errorf("%s: its holder was answered %q, want %q, and told of %d losses", what, reply, wanted,
					len(holder.Losses))
			}
		}
		k.add(pendingCommand{name: what, scripts: []*transport.Script{sc}, key: key, c: c, args: args, next: next(key),
			after: after})
	}
}
