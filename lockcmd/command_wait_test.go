package lockcmd

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// unblock ends the wait of the command in progress, as CLIENT UNBLOCK does.
func (a *conn) unblock(fail bool) {
	a.t.Helper()
	eventually(a.t, 5*time.Second, "it waits", func() bool { return a.carrier.Unblock(fail) })
	if a.carrier.Unblock(fail) {
		a.t.Error("unblocked twice")
	}
}

// TestUnblock: Every waiting command replies as after a timeout, or with the error of CLIENT
// UNBLOCK. Nothing is left of its wait.
func TestUnblock(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, slowRetries)
		holder, lock, five, permits, counter, latch := connect(t, s), newKey(), newKey(), newKey(), newKey(), newKey()
		token := strconv.FormatInt(holder.token(lock), 10)
		holder.token(five)
		want(t, holder.do("SEM.INIT", permits, "0"), ":1")
		want(t, holder.do("LATCH.SET", latch, "1"), ":1")
		for _, block := range []string{"0", "600000"} {
			for _, row := range []struct{ command, timeout string }{
				{"LOCK.ACQUIRE " + lock, "$-1"},
				{"LOCK.ACQUIRE " + lock + " FAIR", "$-1"},
				{"LOCK.ACQUIRE " + lock + " READ", "$-1"},
				{"LOCK.ACQUIRE " + lock + " OWNER me ID 1", "$-1"},
				{"LOCK.MACQUIRE 2 " + newKey() + " " + lock, "*-1"},
				{"LOCK.MACQUIRE 3 " + newKey() + " " + lock + " " + five + " QUORUM 2", "*-1"},
				{"SEM.ACQUIRE " + permits, "$-1"},
				{"SEM.TAKE " + counter, ":0"},
				{"LATCH.AWAIT " + latch, ":0"},
				{"LOCK.AWAITLOSS " + lock + " TOKEN " + token, "$-1"},
			} {
				a := connect(t, s)
				if a.carrier.Unblock(false) {
					t.Fatal("unblocked, and nothing waits")
				}
				for fail, reply := range map[bool]string{false: row.timeout, true: "-" + refusal.Unblocked} {
					got := a.start(strings.Fields(row.command + " BLOCK " + block)...)
					a.unblock(fail)
					if got := woken(t, got); got != reply {
						t.Errorf("%s, error %v: got %q, want %q", row.command, fail, got, reply)
					}
				}
				if a.carrier.Unblock(false) || a.guarded.Load() || a.carrier.Holds() != 0 {
					t.Errorf("%s: something is left of the wait", row.command)
				}
			}
		}
		if n := s.Stats().Waiters; n != 0 || s.Waiting(lockOf(lock)) != 0 {
			t.Errorf("%d wait", n)
		}
		want(t, connect(t, s).do("LOCK.ACQUIRE", lock), "$-1")
		want(t, holder.do("LOCK.RELEASE", lock), ":1")
		connect(t, s).token(lock)
	})
}

// TestUnblockWakesTheNextWaiter: After a waiter was unblocked, the next one in the queue gets the
// lock when it is free.
func TestUnblockWakesTheNextWaiter(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, slowRetries)
		for _, options := range [][]string{nil, {"FAIR"}} {
			a, b, c, key := connect(t, s), connect(t, s), connect(t, s), newKey()
			a.token(key)
			first := b.await(s, 1, key, append(options, "BLOCK", "0")...)
			second := c.await(s, 2, key, append(options, "BLOCK", "0")...)
			b.unblock(false)
			want(t, woken(t, first), "$-1")
			want(t, a.do("LOCK.RELEASE", key), ":1")
			tokenOf(t, woken(t, second))
		}
	})
}

// TestR19UnblockAndGrant: A grant and CLIENT UNBLOCK meet. Either the client gets the lock, or the
// lock is free.
func TestR19UnblockAndGrant(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := leash(t, rdb, Config{}, slowRetries), leash(t, rdb, Config{}, slowRetries)
		tests := make(map[string]func(*testing.T))
		for what, options := range map[string][]string{"plain": nil, "fair": {"FAIR"}, "write": {"WRITE"},
			"owner": {"OWNER", "me"}} {
			for where, from := range map[string]*Service{"here": s, "elsewhere": other} {
				tests[what+" "+where] = func(t *testing.T) {
					granted, ended, key := 0, 0, newKey()
					mode := options
					if what == "owner" {
						mode = nil
					}
					for i := range 20 {
						a, b := connect(t, from), connect(t, s)
						a.token(append([]string{key}, mode...)...)
						reply := b.await(s, 1, key, append([]string{"BLOCK", "0"}, options...)...)
						release := a.start("LOCK.RELEASE", key)
						<-time.After(time.Duration(i%20) * 50 * time.Microsecond)
						b.carrier.Unblock(i%2 == 0)
						want(t, receive(t, release, 5*time.Second), ":1")
						switch got := woken(t, reply); {
						case got[0] == ':':
							granted++
							want(t, b.do("LOCK.RELEASE", key), ":1")
						case i%2 == 0:
							ended++
							want(t, got, "-"+refusal.Unblocked)
						default:
							ended++
							want(t, got, "$-1")
						}
						c := connect(t, s)
						// the lock is free long before a lease could expire
						tokenOf(t, woken(t, c.start(append([]string{"LOCK.ACQUIRE", key, "BLOCK", "0"}, mode...)...)))
						want(t, c.do("LOCK.RELEASE", key), ":1")
					}
					t.Logf("%d granted, %d unblocked", granted, ended)
				}
			}
		}
		runParallel(t, tests)
	})
}

// TestR19UnblockAndPermits: No permit is lost when the wait for a permit, or for a counter, is
// unblocked.
func TestR19UnblockAndPermits(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, sem, counter := leash(t, rdb, Config{}), newKey(), newKey()
		give := connect(t, s)
		want(t, give.do("SEM.INIT", sem, "1"), ":1")
		for i := range 20 {
			a := connect(t, s)
			permit := a.do("SEM.ACQUIRE", sem)
			wantPrefix(t, permit, "$32")
			b, c := connect(t, s), connect(t, s)
			one, two := b.start("SEM.ACQUIRE", sem, "BLOCK", "0"), c.start("SEM.TAKE", counter, "BLOCK", "0")
			eventually(t, 5*time.Second, "both wait", func() bool { return b.waits.Load() == 1 && c.waits.Load() == 1 })
			release, given := a.start("SEM.RELEASE", sem), give.start("SEM.GIVE", counter)
			<-time.After(time.Duration(i%20) * 50 * time.Microsecond)
			b.carrier.Unblock(i%2 == 0)
			c.carrier.Unblock(i%2 == 0)
			want(t, receive(t, release, 5*time.Second), ":1")
			wantPrefix(t, receive(t, given, 5*time.Second), ":")
			if woken(t, one)[0] == '$' && b.carrier.Holds() > 0 {
				want(t, b.do("SEM.RELEASE", sem), ":1")
			}
			if woken(t, two) != ":1" {
				want(t, connect(t, s).do("SEM.TAKE", counter), ":1")
			}
			census := give.do("SEM.INFO", sem)
			if !strings.Contains(census, "available\r\n:1\r\n") {
				t.Fatalf("got %q, want one permit available", census)
			}
		}
	})
}

// TestR19UnblockWhileAHandOverIsUnanswered: The wait ends soon although Redis does not answer the
// hand-over. The lock is free when Redis answers again.
func TestR19UnblockWhileAHandOverIsUnanswered(t *testing.T) {
	t.Parallel()
	s, straight, p := faulty(t, Config{UpstreamTimeout: 20 * time.Second}, slowRetries)
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		a, b, key := connect(t, s), connect(t, s), newKey()
		// b makes no second attempt, during which a release would pass it over
		subscribeFirst(t, s, script.LockChannel(key), key)
		a.token(key)
		reply := b.await(s, 1, key, "BLOCK", "0")
		fault := arm(running(script.HandoverScript, key), faultproxy.Always())
		release := a.start("LOCK.RELEASE", key)
		eventually(t, 5*time.Second, "the hand-over is in progress", func() bool { return fault.Count() > 0 })
		b.unblock(true)
		want(t, receive(t, reply, 5*time.Second), "-"+refusal.Unblocked)
		fault.Disarm()
		receive(t, release, 30*time.Second)
		eventually(t, 5*time.Second, "the lock is free", func() bool { return !exists(t, straight.Redis.Redis, key) })
	}
}
