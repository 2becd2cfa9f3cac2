package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"leash/internal/limits"
	"leash/internal/redistest"
)

// limited starts a Leash with limits of each user.
func limited(t *testing.T, redis *redistest.Server, l limits.Limits) *leash {
	t.Helper()
	return startLeash(t, []string{redis.Addr}, func(o *options) { o.front.UserLimits = l })
}

func limitError(user, kind string) string {
	return "-LIMIT user '" + user + "' has reached --limit-user " + kind + " on this Leash\r\n"
}

// enter opens a connection of a user of startOpen.
func enter(t *testing.T, l *leash, user string) *redistest.Client {
	t.Helper()
	c := l.dial(t)
	want(t, c, "+OK\r\n", "AUTH", user, user)
	return c
}

// TestLimitOfClients checks that each user has a limit of its own, and that a client counts at one
// user at a time.
func TestLimitOfClients(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := limited(t, redis, limits.Limits{limits.Clients: 2})
	a, b := l.dial(t), l.dial(t)
	want(t, a, "+PONG\r\n", "PING")
	want(t, b, "+PONG\r\n", "PING")
	third := l.dial(t)
	if got, err := third.Read(); got != limitError("default", "clients") {
		t.Fatalf("a third client: got %q, %v", got, err)
	}
	want(t, a, "+OK\r\n", "AUTH", "app", "app")
	want(t, b, "+OK\r\n", "AUTH", "app", "app")
	c := l.dial(t)
	want(t, c, limitError("app", "clients"), "AUTH", "app", "app")
	want(t, c, limitError("app", "clients"), "HELLO", "3", "AUTH", "app", "app")
	want(t, c, "$7\r\ndefault\r\n", "ACL", "WHOAMI") // it stays who it was
	want(t, b, "+RESET\r\n", "RESET")
	want(t, b, "+PONG\r\n", "PING") // it is another user now
	want(t, c, "+OK\r\n", "AUTH", "app", "app")
	a.Close()
	eventually(t, "the place of a closed client is free", func() bool {
		return do(t, b, "AUTH", "app", "app") == "+OK\r\n"
	})
	if n := l.Figures().LimitRefusals["clients"]; n < 3 {
		t.Errorf("counted %d refusals", n)
	}
}

// TestLimitOfLocks checks the limits of holds and of waiters.
func TestLimitOfLocks(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := limited(t, redis, limits.Limits{limits.Holds: 2, limits.Waiters: 1})
	a, b, other := enter(t, l, "app"), enter(t, l, "app"), enter(t, l, "anyone")
	token(t, a, "one")
	token(t, b, "two")
	want(t, a, limitError("app", "holds"), "LOCK.ACQUIRE", "three")
	want(t, a, limitError("app", "holds"), "LOCK.MACQUIRE", "1", "three")
	want(t, a, limitError("app", "holds"), "SEM.ACQUIRE", "three")
	token(t, other, "three")
	want(t, b, ":1\r\n", "LOCK.RELEASE", "two")
	token(t, a, "two")
	want(t, a, ":1\r\n", "LOCK.RELEASE", "two")

	if err := a.Send(redistest.Command("LOCK.ACQUIRE", "three", "BLOCK", "60000")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the acquire waits", func() bool { return l.Figures().Locks.Waiters == 1 })
	want(t, b, limitError("app", "waiters"), "LATCH.AWAIT", "latch", "BLOCK", "1")
	want(t, b, limitError("app", "waiters"), "LOCK.ACQUIRE", "four", "block", "1")
	want(t, b, ":1\r\n", "LATCH.AWAIT", "latch") // it does not wait
	want(t, other, ":1\r\n", "LOCK.RELEASE", "three")
	if got, err := a.Read(); err != nil || got[0] != ':' {
		t.Fatalf("got %q, %v; want a token", got, err)
	}
	want(t, b, limitError("app", "holds"), "LOCK.ACQUIRE", "four") // the hold that was handed over counts
	a.Close()
	eventually(t, "the holds of a closed client are given back", func() bool {
		return strings.HasPrefix(do(t, b, "LOCK.ACQUIRE", "four"), ":")
	})
}

// TestLimitOfBlocked checks which commands count as blocked, and that each of them is given back.
func TestLimitOfBlocked(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := limited(t, redis, limits.Limits{limits.Blocked: 1})
	a, b := enter(t, l, "app"), enter(t, l, "app")
	refused := limitError("app", "blocked")
	for _, c := range []struct{ begin, end []string }{
		{[]string{"MULTI"}, []string{"DISCARD"}},
		{[]string{"MULTI"}, []string{"EXEC"}},
		{[]string{"WATCH", "k"}, []string{"UNWATCH"}},
		{[]string{"MONITOR"}, []string{"RESET"}},
	} {
		// a client can have its reply a moment before the connection is given back
		eventually(t, "the last one is given back", func() bool { return do(t, a, c.begin...) == "+OK\r\n" })
		want(t, b, refused, "MULTI")
		want(t, b, refused, "WATCH", "k")
		want(t, b, refused, "MONITOR")
		want(t, b, refused, "BLPOP", "l", "0.01")
		want(t, b, refused, "XREAD", "BLOCK", "10", "STREAMS", "s", "$")
		do(t, a, c.end...)
		if c.begin[0] == "MONITOR" {
			a = enter(t, l, "app")
		}
		eventually(t, "a blocking command may run", func() bool { return do(t, b, "BLPOP", "l", "0.01") == "*-1\r\n" })
	}
	eventually(t, "a transaction may begin", func() bool { return do(t, a, "MULTI") == "+OK\r\n" })
	a.Close()
	eventually(t, "the transaction of a closed client is given back", func() bool {
		return do(t, b, "BLPOP", "l", "0.01") != refused
	})
}

// TestLimitOfSubscriptions checks that subscriptions count at the user, over all clients.
func TestLimitOfSubscriptions(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := limited(t, redis, limits.Limits{limits.Subscriptions: 3})
	a, b := enter(t, l, "app"), enter(t, l, "app")
	if err := a.Send(redistest.Command("SUBSCRIBE", "c1", "c2")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := a.Read(); err != nil || !strings.HasPrefix(got, "*3\r\n$9\r\nsubscribe") {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	want(t, b, limitError("app", "subscriptions"), "PSUBSCRIBE", "p1", "p2")
	if got := do(t, b, "PSUBSCRIBE", "p1"); !strings.HasPrefix(got, "*3\r\n$10\r\npsubscribe") {
		t.Errorf("got %q", got)
	}
	want(t, a, limitError("app", "subscriptions"), "SUBSCRIBE", "c3")
	do(t, a, "UNSUBSCRIBE", "c1")
	do(t, a, "SUBSCRIBE", "c3")
	a.Close()
	eventually(t, "the subscriptions of a closed client are given back", func() bool {
		return do(t, b, "PSUBSCRIBE", "p2", "p3") != limitError("app", "subscriptions")
	})
}

// TestLimitOfCommands checks that commands beyond the rate are delayed, in order, and that no other
// user waits for them.
func TestLimitOfCommands(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := limited(t, redis, limits.Limits{limits.Commands: 500})
	a, b := enter(t, l, "app"), enter(t, l, "anyone")
	const commands = 800
	var pipeline strings.Builder
	for range commands {
		pipeline.WriteString(redistest.Command("INCR", "n"))
	}
	start := time.Now()
	if err := a.Send(pipeline.String()); err != nil {
		t.Fatal(err)
	}
	for i := range commands {
		if got, err := a.Read(); err != nil || got != fmt.Sprintf(":%d\r\n", i+1) {
			t.Fatalf("command %d: got %q, %v", i, got, err)
		}
	}
	// a second's worth comes at once, the rest with 500 a second
	if took := time.Since(start); took < 500*time.Millisecond {
		t.Errorf("%d commands took %s", commands, took)
	}
	if l.Figures().LimitDelays["commands"] == 0 {
		t.Error("no delay was counted")
	}
	want(t, b, "+PONG\r\n", "PING")
}

// TestLimitOfCommandsRefuses checks the error when commands would have to wait for longer than a
// second, also in a transaction. A client that leaves meanwhile is noticed.
func TestLimitOfCommandsRefuses(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := limited(t, redis, limits.Limits{limits.Commands: 1})
	a, b := enter(t, l, "app"), enter(t, l, "app")
	want(t, a, "+OK\r\n", "MULTI")
	refused := false
	for range 20 { // two clients take turns at one command a second
		if err := b.Send(redistest.Command("PING")); err != nil {
			t.Fatal(err)
		}
		if refused = do(t, a, "SET", "k", "v") == limitError("app", "commands"); refused {
			break
		}
		if _, err := b.Read(); err != nil {
			t.Fatal(err)
		}
	}
	if !refused {
		t.Fatal("no command was refused")
	}
	a.Close()
	b.Close()
	eventually(t, "the clients have gone", func() bool { return l.clients() == 0 })
}

// TestLimitOfAddress checks that an address can have so many connections, whoever its users are.
func TestLimitOfAddress(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := startLeash(t, []string{redis.Addr}, func(o *options) { o.front.AddressClients = 2 })
	a, b := enter(t, l, "app"), l.dial(t)
	want(t, b, "+PONG\r\n", "PING")
	if got, err := l.dial(t).Read(); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("got %q, %v", got, err)
	}
	a.Close()
	eventually(t, "the place of a closed client is free", func() bool {
		c := l.dial(t)
		defer c.Close()
		got, err := c.Do("PING")
		return err == nil && got == "+PONG\r\n"
	})
	if l.Figures().LimitRefusals["address_clients"] == 0 || l.Figures().Disconnections["address_limit"] == 0 {
		t.Error("not counted")
	}
}

// TestStrangersMustLogIn checks that a client that does not authenticate in time is closed, and no
// other.
func TestStrangersMustLogIn(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := startLeash(t, []string{redis.Addr}, requireAuth, func(o *options) { o.front.LoginTime = 4 * time.Second })
	user, stranger := enter(t, l, "app"), l.dial(t)
	want(t, stranger, noAuth, "PING")
	if got, err := stranger.Read(); err == nil {
		t.Errorf("got %q", got)
	}
	want(t, user, "+PONG\r\n", "PING")
	if n := l.Figures().Disconnections["login_timeout"]; n != 1 {
		t.Errorf("counted %d", n)
	}
}

// TestIdleClientsAreClosed checks that idle clients are closed, but no holders, subscribers and
// clients that block.
func TestIdleClientsAreClosed(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := startLeash(t, []string{redis.Addr}, func(o *options) { o.front.IdleTime = 4 * time.Second })
	holder, subscriber, blocked, idle, silent := l.dial(t), l.dial(t), l.dial(t), l.dial(t), l.dial(t)
	token(t, holder, "lock")
	do(t, subscriber, "SUBSCRIBE", "c")
	if err := blocked.Send(redistest.Command("BLPOP", "l", "0")); err != nil {
		t.Fatal(err)
	}
	want(t, idle, "+PONG\r\n", "PING")
	for _, c := range []*redistest.Client{idle, silent} {
		if got, err := c.Read(); err == nil {
			t.Errorf("got %q", got)
		}
	}
	want(t, l.dial(t), ":1\r\n", "LPUSH", "l", "v")
	if got, err := blocked.Read(); err != nil || got != "*2\r\n$1\r\nl\r\n$1\r\nv\r\n" {
		t.Errorf("blocked: %q, %v", got, err)
	}
	want(t, holder, ":1\r\n", "LOCK.RELEASE", "lock")
	want(t, subscriber, "*2\r\n$4\r\npong\r\n$0\r\n\r\n", "PING")
}

// TestAcceptRate checks that connections beyond the rate are served later.
func TestAcceptRate(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := startLeash(t, []string{redis.Addr}, func(o *options) { o.front.AcceptRate = 4 })
	for range 6 { // four come at once
		want(t, l.dial(t), "+PONG\r\n", "PING")
	}
	if n := l.Figures().LimitDelays["accepts"]; n == 0 {
		t.Error("no delay was counted")
	}
}

// TestLimitOfOutput checks that clients of a user are closed for whom Leash keeps too much, and
// that holders and other users are not.
func TestLimitOfOutput(t *testing.T) {
	t.Parallel()
	redis, admin := startOpen(t)
	const size = 16 << 20 // more than the sockets keep
	want(t, admin, "+OK\r\n", "SET", "large", strings.Repeat("x", size))
	l := limited(t, redis, limits.Limits{limits.Output: size})
	silent := func(user string, hold bool) *redistest.Client {
		c := enter(t, l, user)
		if hold {
			token(t, c, "lock")
		}
		if err := c.Send(redistest.Command("GET", "large")); err != nil {
			t.Fatal(err)
		}
		return c
	}
	other := silent("anyone", false)
	holder := silent("app", true)
	silent("app", false)
	silent("app", false)
	eventually(t, "two clients are closed", func() bool {
		return l.Figures().Disconnections["user_output_limit"] == 2
	})
	for _, c := range []*redistest.Client{holder, other} {
		if got, err := c.Read(); len(got) < size || err != nil {
			t.Errorf("a client who may stay got %d bytes, %v", len(got), err)
		}
	}
	want(t, holder, ":1\r\n", "LOCK.RELEASE", "lock")
	if n := l.Figures().LimitRefusals["output"]; n != 2 {
		t.Errorf("counted %d", n)
	}
}
