package release_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
)

func TestR28IdleIsReportedThenReleased(t *testing.T) {
	t.Parallel() // mostly waiting
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		tests := make(map[string]func(*testing.T))
		for _, how := range []string{"CLOSE", "ERROR"} {
			for _, options := range [][]string{nil, {"WRITE"}, {"READ"}, {"LEASE", "60000"},
				{"OWNER", "me", "ONCLOSE", "EXPIRE"}} {
				tests[how+" "+strings.Join(options, " ")] = func(t *testing.T) {
					a, b, key := locktest.Connect(t, s), locktest.Connect(t, s), locktest.NewKey()
					a.Token(append([]string{key, "IDLE", "300", "ONLOSS", how}, options...)...)
					<-time.After(700 * time.Millisecond) // a command is in progress, or the client sends something
					if a.Carrier.Holds() != 1 {
						t.Fatal("lost, and its client was not silent")
					}
					began := time.Now()
					a.GoSilent()
					take := []string{"LOCK.ACQUIRE", key, "BLOCK", "0"}
					if len(options) == 1 {
						take = append(take, "WRITE")
					}
					locktest.TokenOf(t, locktest.Woken(t, b.Start(take...)))
					if took := time.Since(began); took < 300*time.Millisecond {
						t.Errorf("silent for %v, want 300 ms at least", took)
					}
					if how == "CLOSE" {
						if len(a.Losses) != 1 {
							t.Fatal("another has the lock, and its holder was not told")
						}
						locktest.Want(t, <-a.Losses, key+" idle")
					} else {
						locktest.Want(t, a.Do("LOCK.RELEASE", key), "-"+locktest.MsgLost(key, "idle"))
					}
					locktest.Want(t, b.Do("LOCK.RELEASE", key), ":1")
					locktest.Eventually(t, time.Second, "the hold is dropped", func() bool {
						return a.Carrier.Holds() == 0 && !a.Guarded.Load()
					})
				}
			}
		}
		locktest.RunParallel(t, tests)
		if n := s.Stats().Losses[hold.ReasonIdle]; n != 10 {
			t.Errorf("got %d losses counted, want 10", n)
		}
	})
}

// closing is a connection that ends when it is told of a loss, as a real one does.
type closing struct{ *locktest.Client }

func (c *closing) End(key []byte, reason string) {
	c.Client.End(key, reason)
	go c.Carrier.End(lockcmd.Expire)
}

// TestR28IdleOfSeveralHolds: All holds whose IDLE time has passed are released, although the first
// loss ends the connection. The other holds are left to expire.
func TestR28IdleOfSeveralHolds(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{WatchdogTimeout: 10 * time.Minute}, locktest.SlowRetries)
		c := &closing{locktest.Connect(t, s)}
		c.Carrier = s.NewCarrier(locktest.LastConn.Add(1), lockcmd.Client{Name: locktest.TestClientName}, c, c)
		var keys []string
		for range 50 {
			keys = append(keys, locktest.NewKey())
			c.Token(keys[len(keys)-1], "IDLE", "500")
		}
		long, other := locktest.NewKey(), locktest.NewKey()
		c.Token(long, "IDLE", "600000")
		c.Token(other)
		c.GoSilent()
		for _, key := range keys {
			locktest.TokenOf(t, locktest.Woken(t, locktest.Connect(t, s).Start("LOCK.ACQUIRE", key, "BLOCK", "0")))
		}
		if !locktest.Exists(t, rdb, long) || !locktest.Exists(t, rdb, other) {
			t.Error("a hold whose time is not over was released")
		}
	})
}

// TestIdleTimer: A new hold with a shorter IDLE gets an earlier check. A client that sent something
// is checked again later.
func TestIdleTimer(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	a, slow, quick, free := locktest.Connect(t, s), locktest.NewKey(), locktest.NewKey(), locktest.NewKey()
	a.Token(slow, "IDLE", "600000", "ONLOSS", "ERROR")
	a.Token(quick, "IDLE", "100", "ONLOSS", "ERROR")
	a.Token(free)
	for range 5 { // each check finds a client that sends something, or that has been silent for a moment only
		a.GoSilent()
		a.Speak()
		<-time.After(60 * time.Millisecond)
	}
	if a.Carrier.Holds() != 3 {
		t.Fatal("lost, and its client spoke")
	}
	a.GoSilent()
	locktest.Eventually(t, 5*time.Second, "the quick one is over", func() bool { return a.Carrier.Holds() == 2 })
	again := locktest.NewKey()
	a.Token(again, "IDLE", "100", "ONLOSS", "ERROR")
	locktest.Eventually(t, 5*time.Second, "and so is the next", func() bool { return a.Carrier.Holds() == 2 })
	a.Carrier.End(lockcmd.Release)
	locktest.Eventually(t, 5*time.Second, "all are released", func() bool {
		return !locktest.Exists(t, locktest.RedisOf(s), slow) && !locktest.Exists(t, locktest.RedisOf(s), free)
	})
}

func TestIdleMovesWithTheHold(t *testing.T) {
	t.Parallel()
	locktest.EveryRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		first, kill := locktest.StartKillable(t, rdb, lockcmd.Config{})
		second := locktest.Start(t, rdb, lockcmd.Config{})
		for _, options := range [][]string{{"MAXHOLD", "600000"}, {"WRITE"}, {"LEASE", "60000"}} {
			key := locktest.NewKey()
			a := locktest.Connect(t, first)
			token := a.Token(append([]string{key, "OWNER", "me", "IDLE", "500", "ONLOSS", "ERROR"}, options...)...)
			if options[0] == "LEASE" {
				locktest.WantPrefix(t, a.Do("LOCK.EXTEND", key, "70000"), ":7")
			}
			b := locktest.Connect(t, second)
			b.Attach(key, "me", token)
			// this does not change IDLE
			b.Token(append([]string{key, "OWNER", "me", "IDLE", "600000"}, options...)...)
			b.GoSilent()
			locktest.Eventually(t, 5*time.Second, "it is ended", func() bool { return !locktest.Exists(t, rdb, key) })
			locktest.Want(t, b.Do("LOCK.RELEASE", key), "-"+locktest.MsgLost(key, "idle"))
		}
		kill()
	})
}

func TestIdleOfMacquire(t *testing.T) {
	t.Parallel()
	locktest.Both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := locktest.Start(t, rdb, lockcmd.Config{}, locktest.SlowRetries)
		for _, quorum := range [][]string{nil, {"QUORUM", "1"}} {
			a, b := locktest.Connect(t, s), locktest.Connect(t, s)
			first, second := locktest.NewKey(), locktest.NewKey()
			b.Token(max(first, second))
			waitsFor := max(first, second)
			if quorum != nil {
				waitsFor = min(first, second)
				b.Token(waitsFor)
			}
			reply := a.Start(append([]string{"LOCK.MACQUIRE", "2", first, second, "IDLE", "200", "BLOCK", "0"},
				quorum...)...)
			<-time.After(600 * time.Millisecond) // the command waits, so the client cannot send anything
			locktest.Want(t, b.Do("LOCK.RELEASE", waitsFor), ":1")
			locktest.WantPrefix(t, locktest.Woken(t, reply), "*2")
			a.GoSilent()
			if got := locktest.Woken(t, a.Losses); !strings.HasSuffix(got, " idle") {
				t.Errorf("told %q", got)
			}
			locktest.Eventually(t, 5*time.Second, "all are released", func() bool {
				return a.Carrier.Holds() == 0 && !locktest.Exists(t, rdb, waitsFor)
			})
		}
	})
}

// TestTTLCountsIdleAndMaxHold: LOCK.TTL does not exceed what IDLE and MAXHOLD leave.
func TestTTLCountsIdleAndMaxHold(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	for _, option := range []string{"IDLE", "MAXHOLD"} {
		a, key := locktest.Connect(t, s), locktest.NewKey()
		token := a.Token(key, option, "20000")
		for _, reply := range []string{a.Do("LOCK.TTL", key),
			locktest.Connect(t, s).Do("LOCK.TTL", key, "TOKEN", strconv.FormatInt(token, 10))} {
			if left, err := strconv.Atoi(strings.TrimPrefix(reply, ":")); err != nil || left > 20000 || left < 1 {
				t.Errorf("%s: got %q, want 20 s at the most", option, reply)
			}
		}
	}
}

func TestIdleArguments(t *testing.T) {
	t.Parallel()
	s := locktest.Start(t, locktest.DialServer(t, redistest.SharedServer(t).Addr), lockcmd.Config{})
	a, key := locktest.Connect(t, s), locktest.NewKey()
	for options, reply := range map[string]string{
		"IDLE 0":            "ERR invalid expire time in 'lock.acquire' command",
		"IDLE -1":           "ERR invalid expire time in 'lock.acquire' command",
		"IDLE x":            "ERR value is not an integer or out of range",
		"IDLE":              "ERR syntax error",
		"IDLE 1000 IDLE 10": "ERR syntax error",
	} {
		locktest.Want(t, a.Do(append([]string{"LOCK.ACQUIRE", key}, strings.Fields(options)...)...), "-"+reply)
	}
	locktest.Want(t, a.Do("LOCK.MACQUIRE", "1", key, "IDLE", "0"),
		"-ERR invalid expire time in 'lock.macquire' command")
	locktest.Want(t, a.Do("SEM.ACQUIRE", key, "IDLE", "1000"), "-ERR syntax error")
	if locktest.Exists(t, locktest.RedisOf(s), key) {
		t.Error("refused, and something was done")
	}
	a.Token(key, "IDLE", "5000", "MAXHOLD", "60000")
	if text := locktest.RedisOf(s).HGet(context.Background(), key, "leash").Val(); !strings.Contains(text,
		" max=60000,idle=5000 ") {
		t.Errorf("the record is %q", text)
	}
}
