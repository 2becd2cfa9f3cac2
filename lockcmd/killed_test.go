package lockcmd

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"leash/internal/faultproxy"
)

// killing is a Leash that is killed while commands of its clients are under way, and another one of
// the same Redis.
type killing struct {
	t           *testing.T
	s, straight *Service
	arm         func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault
	underway    []*underway
}

// underway is a command that Redis has run, or not, and that will not be answered.
type underway struct {
	name    string
	scripts []*script // one of which nobody will hear when it has come to key
	key     string
	c       *conn // its client; of the Leash that is killed
	args    []string
	next    []string // how a client of the other Leash takes the lock, or all permits
	after   func()   // what is left to do when the Leash is dead; nil for nothing

	fault *faultproxy.Fault
	reply <-chan string
}

// begin sends all commands, and returns when none of them will be answered.
func (k *killing) begin() {
	k.t.Helper()
	for _, u := range k.underway {
		for _, sc := range u.scripts { // or Redis would answer that it has none
			if err := k.straight.rdb.ScriptLoad(k.t.Context(), sc.source).Err(); err != nil {
				k.t.Fatal(err)
			}
		}
		u.fault = k.arm(func(request []byte) bool {
			return slices.ContainsFunc(u.scripts, func(sc *script) bool { return running(sc, u.key)(request) && !asks(sc, request) })
		}, faultproxy.Always())
	}
	for _, u := range k.underway {
		u.reply = u.c.start(u.args...)
	}
	for _, u := range k.underway {
		eventually(k.t, 5*time.Second, u.name+" is under way", func() bool { return u.fault.Count() > 0 })
	}
}

// asks reports whether a script only asks whose the permit is that is to be given back.
func asks(sc *script, request []byte) bool {
	return sc == permitRevokeScript && string(faultproxy.Args(request)[2]) == "3"
}

func (k *killing) add(u underway) { k.underway = append(k.underway, &u) }

// TestKilledAtAnyPoint: whatever script a Leash has sent, or was about to send, when it is killed:
// what its clients held is free when a time to live is over, what a client of another one held
// stays its own unless it was given up or moved, and nothing is left in Redis.
func TestKilledAtAnyPoint(t *testing.T) {
	t.Parallel()
	takesLong(t)
	killed := func(ran bool) func(*testing.T) {
		return func(t *testing.T) {
			// a FAIR waiter that is dead is soon known to be
			brief := func(s *Service) { s.fairTimeout = 2 * time.Second }
			s, straight, p := faulty(t, Config{WatchdogTimeout: 8 * time.Second, UpstreamTimeout: 10 * time.Second}, brief)
			k := &killing{t: t, s: s, straight: straight, arm: p.DropBefore}
			if ran {
				k.arm = p.DropAfter
			}
			for _, m := range modes {
				k.ofMode(m, ran)
			}
			k.ofWaiters()
			k.ofSeveral()
			k.ofPermits(ran)
			k.begin()
			p.Close()
			for _, u := range k.underway {
				if u.after != nil {
					u.after()
				}
			}
			k.succeed()
			for _, u := range k.underway {
				u.c.gone()
				receive(t, u.reply, 5*time.Second)
			}
		}
	}
	atOnce(t, map[string]func(*testing.T){"before": killed(false), "after": killed(true)})
}

// succeed lets others take what was held, all at once.
func (k *killing) succeed() {
	k.t.Helper()
	conns, replies := make([]*conn, len(k.underway)), make([]<-chan string, len(k.underway))
	for i, u := range k.underway {
		conns[i] = connect(k.t, k.straight)
		replies[i] = conns[i].start(append(u.next, "BLOCK", "0")...)
	}
	for i, u := range k.underway {
		if reply := receive(k.t, replies[i], 10*time.Second); reply[0] != ':' && reply[0] != '*' && reply[:3] != "$32" {
			k.t.Errorf("%s: got %q", u.name, reply)
		}
		conns[i].carrier.End(Release)
		names := append([]string{u.key, recordsKey(u.key)}, queueKeys(u.key)...)
		if u.next[0] == "SEM.ACQUIRE" {
			want(k.t, rdbGet(k.t, k.straight, u.key), "2")
			names = append(names[1:], permitsKey(u.key))
		}
		for _, name := range names {
			eventually(k.t, 10*time.Second, u.name+": "+name+" is gone", func() bool { return !exists(k.t, k.straight.rdb, name) })
		}
	}
}

// ofMode are commands about locks in one mode.
func (k *killing) ofMode(m *mode, ran bool) {
	t, next := k.t, func(key string) []string { return append([]string{"LOCK.ACQUIRE", key}, alone(m)...) }
	acquire := func(key string, more ...string) []string {
		return append([]string{"LOCK.ACQUIRE", key, m.option}, more...)
	}
	if m == plain {
		acquire = func(key string, more ...string) []string { return append([]string{"LOCK.ACQUIRE", key}, more...) }
	}
	take := func(c *conn, key string, more ...string) string {
		t.Helper()
		return strconv.FormatInt(tokenOf(t, c.do(acquire(key, more...)...)), 10)
	}
	mine := func(what string, args func(c *conn, key string) []string, scripts ...*script) {
		c, key := connect(t, k.s), newKey()
		k.add(underway{name: what + " " + m.name, scripts: scripts, key: key, c: c, args: args(c, key), next: next(key)})
	}
	// of a hold that hangs on the other Leash
	theirs := func(what string, sc *script, args func(key, token string) []string) {
		holder, c, key := connect(t, k.straight), connect(t, k.s), newKey()
		token := take(holder, key, "OWNER", "me")
		after := func() {
			reply, wanted := holder.do("LOCK.RELEASE", key), map[bool]string{false: ":1", true: "-" + msgNotHeld}[ran]
			if reply != wanted || len(holder.losses) != 0 {
				t.Errorf("%s %s: its holder was answered %q, want %q, and told of %d losses", what, m.name, reply, wanted, len(holder.losses))
			}
		}
		k.add(underway{name: what + " " + m.name, scripts: []*script{sc}, key: key, c: c, args: args(key, token), next: next(key), after: after})
	}
	mine("ACQUIRE", func(_ *conn, key string) []string { return acquire(key) }, m.acquire)
	mine("ACQUIRE again", func(c *conn, key string) []string {
		take(c, key, "OWNER", "me")
		return acquire(key, "OWNER", "me")
	}, m.acquire)
	mine("RELEASE", func(c *conn, key string) []string {
		take(c, key)
		return []string{"LOCK.RELEASE", key}
	}, m.release)
	mine("RELEASE to a waiter", func(c *conn, key string) []string {
		take(c, key)
		waiter := connect(t, k.s)
		waiter.await(k.s, 1, key, append(alone(m), "BLOCK", "0")...)
		t.Cleanup(waiter.gone)
		return []string{"LOCK.RELEASE", key}
	}, m.release, m.handover)
	mine("EXTEND", func(c *conn, key string) []string {
		take(c, key, "LEASE", "8000")
		return []string{"LOCK.EXTEND", key, "4000"}
	}, m.extend)
	theirs("RELEASE from elsewhere", m.revoke, func(key, token string) []string { return []string{"LOCK.RELEASE", key, "TOKEN", token} })
	theirs("ATTACH", m.move, func(key, token string) []string { return []string{"LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token} })
}

// ofWaiters are those who stand in a FAIR lock's queue, or come to stand there.
func (k *killing) ofWaiters() {
	holder, c, key := connect(k.t, k.straight), connect(k.t, k.s), newKey()
	holder.token(key)
	after := func() { want(k.t, holder.do("LOCK.RELEASE", key), ":1") }
	k.add(underway{
		name: "FAIR waiter", scripts: []*script{acquireFairScript}, key: key, c: c, args: []string{"LOCK.ACQUIRE", key, "FAIR", "BLOCK", "0"},
		next: []string{"LOCK.ACQUIRE", key, "FAIR"}, after: after,
	})
}

// ofSeveral are commands about several keys, stopped at the second.
func (k *killing) ofSeveral() {
	keys := newKeys(2)
	take := several("LOCK.MACQUIRE", keys)
	k.add(underway{name: "MACQUIRE", scripts: []*script{acquireScript}, key: keys[1], c: connect(k.t, k.s), args: take, next: take})
	keys = newKeys(2)
	c := connect(k.t, k.s)
	take = several("LOCK.MACQUIRE", keys)
	tokensOf(k.t, c.do(take...), 2)
	k.add(underway{
		name: "MRELEASE", scripts: []*script{releaseScript}, key: keys[1], c: c, args: several("LOCK.MRELEASE", keys), next: take,
	})
}

// ofPermits are commands about semaphores of two permits.
func (k *killing) ofPermits(ran bool) {
	t, next := k.t, func(key string) []string { return []string{"SEM.ACQUIRE", key, "COUNT", "2"} }
	key, c := semaphore(t, k.straight, 2), connect(t, k.s)
	k.add(underway{name: "SEM.ACQUIRE", scripts: []*script{permitAcquireScript}, key: key, c: c, args: next(key), next: next(key)})
	key, c = semaphore(t, k.straight, 2), connect(t, k.s)
	c.permits(2, key, "COUNT", "2")
	k.add(underway{
		name: "SEM.RELEASE", scripts: []*script{permitReleaseScript}, key: key, c: c, args: []string{"SEM.RELEASE", key}, next: next(key),
	})
	for what, sc := range map[string]*script{"SEM.RELEASE from elsewhere": permitRevokeScript, "SEM.ACQUIRE repeated elsewhere": permitMoveScript} {
		key, holder, c := semaphore(t, k.straight, 2), connect(t, k.straight), connect(t, k.s)
		args := []string{"SEM.RELEASE", key, holder.permit(key, "ID", "r")}
		if sc == permitMoveScript {
			args = []string{"SEM.ACQUIRE", key, "ID", "r"}
		}
		after := func() {
			reply, wanted := holder.do("SEM.RELEASE", key), map[bool]string{false: ":1", true: "-" + msgNoPermit}[ran]
			if reply != wanted || len(holder.losses) != 0 {
				t.Errorf("%s: its holder was answered %q, want %q, and told of %d losses", what, reply, wanted, len(holder.losses))
			}
		}
		k.add(underway{name: what, scripts: []*script{sc}, key: key, c: c, args: args, next: next(key), after: after})
	}
}

// alone are the options of who is to have a lock of a mode to itself.
func alone(m *mode) []string {
	switch m {
	case plain:
		return nil
	case fair:
		return []string{"FAIR"}
	}
	return []string{"WRITE"}
}
