package wait_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
)

// TestUnblock: Every waiting command replies as after a timeout, or with the error of CLIENT
// UNBLOCK. Nothing is left of its wait.
func TestUnblock(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		holder, lock, five, permits, counter, latch := locktest.Connect(t, s), locktest.NewKey(), locktest.NewKey(),
			locktest.NewKey(), locktest.NewKey(), locktest.NewKey()
		token := strconv.FormatInt(holder.Token(lock), 10)
		holder.Token(five)
		locktest.Want(t, holder.Do("SEM.INIT", permits, "0"), ":1")
		locktest.Want(t, holder.Do("LATCH.SET", latch, "1"), ":1")
		for _, block := range []string{"0", "600000"} {
			for _, row := range []struct{ command, timeout string }{
				{"LOCK.ACQUIRE " + lock, "$-1"},
				{"LOCK.ACQUIRE " + lock + " FAIR", "$-1"},
				{"LOCK.ACQUIRE " + lock + " READ", "$-1"},
				{"LOCK.ACQUIRE " + lock + " OWNER me ID 1", "$-1"},
				{"LOCK.MACQUIRE 2 " + locktest.NewKey() + " " + lock, "*-1"},
				{"LOCK.MACQUIRE 3 " + locktest.NewKey() + " " + lock + " " + five + " QUORUM 2", "*-1"},
				{"SEM.ACQUIRE " + permits, "$-1"},
				{"SEM.TAKE " + counter, ":0"},
				{"LATCH.AWAIT " + latch, ":0"},
				{"LOCK.AWAITLOSS " + lock + " TOKEN " + token, "$-1"},
			} {
				a := locktest.Connect(t, s)
				if a.Carrier.Unblock(false) {
					t.Fatal("unblocked, and nothing waits")
				}
				for fail, reply := range map[bool]string{false: row.timeout, true: "-" + refusal.Unblocked} {
					got := a.Start(strings.Fields(row.command + " BLOCK " + block)...)
					a.Unblock(fail)
					if got := locktest.Woken(t, got); got != reply {
						t.Errorf("%s, error %v: got %q, want %q", row.command, fail, got, reply)
					}
				}
				if a.Carrier.Unblock(false) || a.Guarded.Load() || a.Carrier.Holds() != 0 {
					t.Errorf("%s: something is left of the wait", row.command)
				}
			}
		}
		if n := s.Stats().Waiters; n != 0 || s.Waiting(locktest.LockOf(lock)) != 0 {
			t.Errorf("%d wait", n)
		}
		locktest.Want(t, locktest.Connect(t, s).Do("LOCK.ACQUIRE", lock), "$-1")
		locktest.Want(t, holder.Do("LOCK.RELEASE", lock), ":1")
		locktest.Connect(t, s).Token(lock)
	})
}

// TestUnblockWakesTheNextWaiter: After a waiter was unblocked, the next one in the queue gets the
// lock when it is free.
func TestUnblockWakesTheNextWaiter(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		for _, options := range [][]string{nil, {"FAIR"}} {
			a, b, c, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
			a.Token(key)
			first := b.Await(s, 1, key, append(options, "BLOCK", "0")...)
			second := c.Await(s, 2, key, append(options, "BLOCK", "0")...)
			b.Unblock(false)
			locktest.Want(t, locktest.Woken(t, first), "$-1")
			locktest.Want(t, a.Do("LOCK.RELEASE", key), ":1")
			locktest.TokenOf(t, locktest.Woken(t, second))
		}
	})
}

// TestR19UnblockAndGrant: A grant and CLIENT UNBLOCK meet. Either the client gets the lock, or the
// lock is free.
func TestR19UnblockAndGrant(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, other := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries),
			locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		tests := make(map[string]func(*testing.T))
		for what, options := range map[string][]string{"plain": nil, "fair": {"FAIR"}, "write": {"WRITE"},
			"owner": {"OWNER", "me"}} {
			for where, from := range map[string]*lockcmd.Service{"here": s, "elsewhere": other} {
				tests[what+" "+where] = func(t *testing.T) {
					granted, ended, key := 0, 0, locktest.NewKey()
					mode := options
					if what == "owner" {
						mode = nil
					}
					for i := range 20 {
						a, b := locktest.Connect(t, from), locktest.Connect(t, s)
						a.Token(append([]string{key}, mode...)...)
						reply := b.Await(s, 1, key, append([]string{"BLOCK", "0"}, options...)...)
						release := a.Start("LOCK.RELEASE", key)
						<-time.After(time.Duration(i%20) * 50 * time.Microsecond)
						b.Carrier.Unblock(i%2 == 0)
						locktest.Want(t, locktest.Receive(t, release, 5*time.Second), ":1")
						switch got := locktest.Woken(t, reply); {
						case got[0] == ':':
							granted++
							locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
						case i%2 == 0:
							ended++
							locktest.Want(t, got, "-"+refusal.Unblocked)
						default:
							ended++
							locktest.Want(t, got, "$-1")
						}
						c := locktest.Connect(t, s)
						// the lock is free long before a lease could expire
						locktest.TokenOf(t, locktest.Woken(t,
							c.Start(append([]string{"LOCK.ACQUIRE", key, "BLOCK", "0"}, mode...)...)))
						locktest.Want(t, c.Do("LOCK.RELEASE", key), ":1")
					}
					t.Logf("%d granted, %d unblocked", granted, ended)
				}
			}
		}
		locktest.RunParallel(t, tests)
	})
}

// TestR19UnblockAndPermits: No permit is lost when the wait for a permit, or for a counter, is
// unblocked.
func TestR19UnblockAndPermits(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s, sem, counter := locktest.Start(t, rdb, lockcmd.Config{}), locktest.NewKey(), locktest.NewKey()
		give := locktest.Connect(t, s)
		locktest.Want(t, give.Do("SEM.INIT", sem, "1"), ":1")
		for i := range 20 {
			a := locktest.Connect(t, s)
			permit := a.Do("SEM.ACQUIRE", sem)
			locktest.WantPrefix(t, permit, "$32")
			b, c := locktest.Connect(t, s), locktest.Connect(t, s)
			one, two := b.Start("SEM.ACQUIRE", sem, "BLOCK", "0"), c.Start("SEM.TAKE", counter, "BLOCK", "0")
			locktest.Eventually(t, 5*time.Second, "both wait",
				func() bool { return b.Waits.Load() == 1 && c.Waits.Load() == 1 })
			release, given := a.Start("SEM.RELEASE", sem), give.Start("SEM.GIVE", counter)
			<-time.After(time.Duration(i%20) * 50 * time.Microsecond)
			b.Carrier.Unblock(i%2 == 0)
			c.Carrier.Unblock(i%2 == 0)
			locktest.Want(t, locktest.Receive(t, release, 5*time.Second), ":1")
			locktest.WantPrefix(t, locktest.Receive(t, given, 5*time.Second), ":")
			if locktest.Woken(t, one)[0] == '$' && b.Carrier.Holds() > 0 {
				locktest.Want(t, b.Do("SEM.RELEASE", sem), ":1")
			}
			if locktest.Woken(t, two) != ":1" {
				locktest.Want(t, locktest.Connect(t, s).Do("SEM.TAKE", counter), ":1")
			}
			census := give.Do("SEM.INFO", sem)
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
	s, straight, p := locktest.StartFaulty(t, lockcmd.Config{UpstreamTimeout: 20 * time.Second}, locktest.SlowRetries)
	for _, arm := range []func(faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault{p.DropAfter, p.DropBefore} {
		a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
		// b makes no second attempt, during which a release would pass it over
		locktest.SubscribeFirst(t, s, script.LockChannel(key), key)
		a.Token(key)
		reply := b.Await(s, 1, key, "BLOCK", "0")
		fault := arm(locktest.Running(script.HandoverScript, key), faultproxy.Always())
		release := a.Start("LOCK.RELEASE", key)
		locktest.Eventually(t, 5*time.Second, "the hand-over is in progress", func() bool { return fault.Count() > 0 })
		b.Unblock(true)
		locktest.Want(t, locktest.Receive(t, reply, 5*time.Second), "-"+refusal.Unblocked)
		fault.Disarm()
		locktest.Receive(t, release, 30*time.Second)
		locktest.Eventually(t, 5*time.Second, "the lock is free",
			func() bool { return !locktest.Exists(t, locktest.RedisOf(straight), key) })
	}
}
