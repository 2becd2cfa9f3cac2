package lockcmd

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/hold"
)

func TestR28IdleIsReportedThenReleased(t *testing.T) {
	t.Parallel() // mostly waiting
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, slowRetries)
		tests := make(map[string]func(*testing.T))
		for _, how := range []string{"CLOSE", "ERROR"} {
			for _, options := range [][]string{nil, {"WRITE"}, {"READ"}, {"LEASE", "60000"},
				{"OWNER", "me", "ONCLOSE", "EXPIRE"}} {
				tests[how+" "+strings.Join(options, " ")] = func(t *testing.T) {
					a, b, key := connect(t, s), connect(t, s), newKey()
					a.token(append([]string{key, "IDLE", "300", "ONLOSS", how}, options...)...)
					<-time.After(700 * time.Millisecond) // a command is in progress, or the client sends something
					if a.carrier.Holds() != 1 {
						t.Fatal("lost, and its client was not silent")
					}
					began := time.Now()
					a.goSilent()
					take := []string{"LOCK.ACQUIRE", key, "BLOCK", "0"}
					if len(options) == 1 {
						take = append(take, "WRITE")
					}
					tokenOf(t, woken(t, b.start(take...)))
					if took := time.Since(began); took < 300*time.Millisecond {
						t.Errorf("silent for %v, want 300 ms at least", took)
					}
					if how == "CLOSE" {
						if len(a.losses) != 1 {
							t.Fatal("another has the lock, and its holder was not told")
						}
						want(t, <-a.losses, key+" idle")
					} else {
						want(t, a.do("LOCK.RELEASE", key), "-"+msgLost(key, "idle"))
					}
					want(t, b.do("LOCK.RELEASE", key), ":1")
					eventually(t, time.Second, "the hold is dropped", func() bool {
						return a.carrier.Holds() == 0 && !a.guarded.Load()
					})
				}
			}
		}
		runParallel(t, tests)
		if n := s.Stats().Losses[hold.ReasonIdle]; n != 10 {
			t.Errorf("got %d losses counted, want 10", n)
		}
	})
}

// closing is a connection that ends when it is told of a loss, as a real one does.
type closing struct{ *conn }

func (c *closing) End(key []byte, reason string) {
	c.conn.End(key, reason)
	go c.carrier.End(Expire)
}

// TestR28IdleOfSeveralHolds: All holds whose IDLE time has passed are released, although the first
// loss ends the connection. The other holds are left to expire.
func TestR28IdleOfSeveralHolds(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{WatchdogTimeout: 10 * time.Minute}, slowRetries)
		c := &closing{connect(t, s)}
		c.carrier = s.NewCarrier(lastConn.Add(1), Client{Name: testClientName}, c, c)
		var keys []string
		for range 50 {
			keys = append(keys, newKey())
			c.token(keys[len(keys)-1], "IDLE", "500")
		}
		long, other := newKey(), newKey()
		c.token(long, "IDLE", "600000")
		c.token(other)
		c.goSilent()
		for _, key := range keys {
			tokenOf(t, woken(t, connect(t, s).start("LOCK.ACQUIRE", key, "BLOCK", "0")))
		}
		if !exists(t, rdb, long) || !exists(t, rdb, other) {
			t.Error("a hold whose time is not over was released")
		}
	})
}

// TestIdleTimer: A new hold with a shorter IDLE gets an earlier check. A client that sent something
// is checked again later.
func TestIdleTimer(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a, slow, quick, free := connect(t, s), newKey(), newKey(), newKey()
	a.token(slow, "IDLE", "600000", "ONLOSS", "ERROR")
	a.token(quick, "IDLE", "100", "ONLOSS", "ERROR")
	a.token(free)
	for range 5 { // each check finds a client that sends something, or that has been silent for a moment only
		a.goSilent()
		a.speak()
		<-time.After(60 * time.Millisecond)
	}
	if a.carrier.Holds() != 3 {
		t.Fatal("lost, and its client spoke")
	}
	a.goSilent()
	eventually(t, 5*time.Second, "the quick one is over", func() bool { return a.carrier.Holds() == 2 })
	again := newKey()
	a.token(again, "IDLE", "100", "ONLOSS", "ERROR")
	eventually(t, 5*time.Second, "and so is the next", func() bool { return a.carrier.Holds() == 2 })
	a.carrier.End(Release)
	eventually(t, 5*time.Second, "all are released", func() bool {
		return !exists(t, s.Redis.Redis, slow) && !exists(t, s.Redis.Redis, free)
	})
}

func TestIdleMovesWithTheHold(t *testing.T) {
	t.Parallel()
	everyRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		first, kill := killableLeash(t, rdb, Config{})
		second := leash(t, rdb, Config{})
		for _, options := range [][]string{{"MAXHOLD", "600000"}, {"WRITE"}, {"LEASE", "60000"}} {
			key := newKey()
			a := connect(t, first)
			token := a.token(append([]string{key, "OWNER", "me", "IDLE", "500", "ONLOSS", "ERROR"}, options...)...)
			if options[0] == "LEASE" {
				wantPrefix(t, a.do("LOCK.EXTEND", key, "70000"), ":7")
			}
			b := connect(t, second)
			b.attach(key, "me", token)
			// this does not change IDLE
			b.token(append([]string{key, "OWNER", "me", "IDLE", "600000"}, options...)...)
			b.goSilent()
			eventually(t, 5*time.Second, "it is ended", func() bool { return !exists(t, rdb, key) })
			want(t, b.do("LOCK.RELEASE", key), "-"+msgLost(key, "idle"))
		}
		kill()
	})
}

func TestIdleOfMacquire(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, rdb redis.UniversalClient) {
		s := leash(t, rdb, Config{}, slowRetries)
		for _, quorum := range [][]string{nil, {"QUORUM", "1"}} {
			a, b := connect(t, s), connect(t, s)
			first, second := newKey(), newKey()
			b.token(max(first, second))
			waitsFor := max(first, second)
			if quorum != nil {
				waitsFor = min(first, second)
				b.token(waitsFor)
			}
			reply := a.start(append([]string{"LOCK.MACQUIRE", "2", first, second, "IDLE", "200", "BLOCK", "0"},
				quorum...)...)
			<-time.After(600 * time.Millisecond) // the command waits, so the client cannot send anything
			want(t, b.do("LOCK.RELEASE", waitsFor), ":1")
			wantPrefix(t, woken(t, reply), "*2")
			a.goSilent()
			if got := woken(t, a.losses); !strings.HasSuffix(got, " idle") {
				t.Errorf("told %q", got)
			}
			eventually(t, 5*time.Second, "all are released", func() bool {
				return a.carrier.Holds() == 0 && !exists(t, rdb, waitsFor)
			})
		}
	})
}

// TestTTLCountsIdleAndMaxHold: LOCK.TTL does not exceed what IDLE and MAXHOLD leave.
func TestTTLCountsIdleAndMaxHold(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	for _, option := range []string{"IDLE", "MAXHOLD"} {
		a, key := connect(t, s), newKey()
		token := a.token(key, option, "20000")
		for _, reply := range []string{a.do("LOCK.TTL", key),
			connect(t, s).do("LOCK.TTL", key, "TOKEN", strconv.FormatInt(token, 10))} {
			if left, err := strconv.Atoi(strings.TrimPrefix(reply, ":")); err != nil || left > 20000 || left < 1 {
				t.Errorf("%s: got %q, want 20 s at the most", option, reply)
			}
		}
	}
}

func TestIdleArguments(t *testing.T) {
	t.Parallel()
	s := leash(t, dialServer(t, sharedServer(t).Addr), Config{})
	a, key := connect(t, s), newKey()
	for options, reply := range map[string]string{
		"IDLE 0":            "ERR invalid expire time in 'lock.acquire' command",
		"IDLE -1":           "ERR invalid expire time in 'lock.acquire' command",
		"IDLE x":            "ERR value is not an integer or out of range",
		"IDLE":              "ERR syntax error",
		"IDLE 1000 IDLE 10": "ERR syntax error",
	} {
		want(t, a.do(append([]string{"LOCK.ACQUIRE", key}, strings.Fields(options)...)...), "-"+reply)
	}
	want(t, a.do("LOCK.MACQUIRE", "1", key, "IDLE", "0"), "-ERR invalid expire time in 'lock.macquire' command")
	want(t, a.do("SEM.ACQUIRE", key, "IDLE", "1000"), "-ERR syntax error")
	if exists(t, s.Redis.Redis, key) {
		t.Error("refused, and something was done")
	}
	a.token(key, "IDLE", "5000", "MAXHOLD", "60000")
	if text := s.Redis.Redis.HGet(context.Background(), key, "leash").Val(); !strings.Contains(text,
		" max=60000,idle=5000 ") {
		t.Errorf("the record is %q", text)
	}
}
