package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"leash/internal/limits"
	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// limited starts a Leash with limits of each user.
func limited(t *testing.T, redis *redistest.Server, l limits.Limits) *proxytest.Leash {
	t.Helper()
	return proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.UserLimits = l })
}

func limitError(user, kind string) string {
	return "-LIMIT user '" + user + "' has reached --limit-user " + kind + " on this Leash\r\n"
}

// enter opens a connection of a user of startOpen.
func enter(t *testing.T, l *proxytest.Leash, user string) *redistest.Client {
	t.Helper()
	c := l.Dial(t)
	c.Want(t, "+OK\r\n", "AUTH", user, user)
	return c
}

// TestLimitOfClients checks that each user has a limit of its own, and that a client counts at one
// user at a time.
func TestLimitOfClients(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := limited(t, redis, limits.Limits{limits.Clients: 2})
	a, b := l.Dial(t), l.Dial(t)
	a.Want(t, "+PONG\r\n", "PING")
	b.Want(t, "+PONG\r\n", "PING")
	third := l.Dial(t)
	if got, err := third.Read(); got != limitError("default", "clients") {
		t.Fatalf("a third client: got %q, %v", got, err)
	}
	a.Want(t, "+OK\r\n", "AUTH", "app", "app")
	b.Want(t, "+OK\r\n", "AUTH", "app", "app")
	c := l.Dial(t)
	c.Want(t, limitError("app", "clients"), "AUTH", "app", "app")
	c.Want(t, limitError("app", "clients"), "HELLO", "3", "AUTH", "app", "app")
	c.Want(t, "$7\r\ndefault\r\n", "ACL", "WHOAMI") // it stays who it was
	b.Want(t, "+RESET\r\n", "RESET")
	b.Want(t, "+PONG\r\n", "PING") // it is another user now
	c.Want(t, "+OK\r\n", "AUTH", "app", "app")
	a.Close()
	proxytest.Eventually(t, "the place of a closed client is free", func() bool {
		return b.Reply(t, "AUTH", "app", "app") == "+OK\r\n"
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
	proxytest.Token(t, a, "one")
	proxytest.Token(t, b, "two")
	a.Want(t, limitError("app", "holds"), "LOCK.ACQUIRE", "three")
	a.Want(t, limitError("app", "holds"), "LOCK.MACQUIRE", "1", "three")
	a.Want(t, limitError("app", "holds"), "SEM.ACQUIRE", "three")
	proxytest.Token(t, other, "three")
	b.Want(t, ":1\r\n", "LOCK.RELEASE", "two")
	proxytest.Token(t, a, "two")
	a.Want(t, ":1\r\n", "LOCK.RELEASE", "two")

	if err := a.Send(redistest.Command("LOCK.ACQUIRE", "three", "BLOCK", "60000")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "the acquire waits", func() bool { return l.Figures().Locks.Waiters == 1 })
	b.Want(t, limitError("app", "waiters"), "LATCH.AWAIT", "latch", "BLOCK", "1")
	b.Want(t, limitError("app", "waiters"), "LOCK.ACQUIRE", "four", "block", "1")
	b.Want(t, ":1\r\n", "LATCH.AWAIT", "latch") // it does not wait
	other.Want(t, ":1\r\n", "LOCK.RELEASE", "three")
	if got, err := a.Read(); err != nil || got[0] != ':' {
		t.Fatalf("got %q, %v; want a token", got, err)
	}
	b.Want(t, limitError("app", "holds"), "LOCK.ACQUIRE", "four") // the hold that was handed over counts
	a.Close()
	proxytest.Eventually(t, "the holds of a closed client are given back", func() bool {
		return strings.HasPrefix(b.Reply(t, "LOCK.ACQUIRE", "four"), ":")
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
		proxytest.Eventually(t, "the last one is given back", func() bool { return a.Reply(t, c.begin...) == "+OK\r\n" })
		b.Want(t, refused, "MULTI")
		b.Want(t, refused, "WATCH", "k")
		b.Want(t, refused, "MONITOR")
		b.Want(t, refused, "BLPOP", "l", "0.01")
		b.Want(t, refused, "XREAD", "BLOCK", "10", "STREAMS", "s", "$")
		a.Reply(t, c.end...)
		if c.begin[0] == "MONITOR" {
			a = enter(t, l, "app")
		}
		proxytest.Eventually(t, "a blocking command may run", func() bool { return b.Reply(t, "BLPOP", "l", "0.01") == "*-1\r\n" })
	}
	proxytest.Eventually(t, "a transaction may begin", func() bool { return a.Reply(t, "MULTI") == "+OK\r\n" })
	a.Close()
	proxytest.Eventually(t, "the transaction of a closed client is given back", func() bool {
		return b.Reply(t, "BLPOP", "l", "0.01") != refused
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
	b.Want(t, limitError("app", "subscriptions"), "PSUBSCRIBE", "p1", "p2")
	if got := b.Reply(t, "PSUBSCRIBE", "p1"); !strings.HasPrefix(got, "*3\r\n$10\r\npsubscribe") {
		t.Errorf("got %q", got)
	}
	a.Want(t, limitError("app", "subscriptions"), "SUBSCRIBE", "c3")
	a.Reply(t, "UNSUBSCRIBE", "c1")
	a.Reply(t, "SUBSCRIBE", "c3")
	a.Close()
	proxytest.Eventually(t, "the subscriptions of a closed client are given back", func() bool {
		return b.Reply(t, "PSUBSCRIBE", "p2", "p3") != limitError("app", "subscriptions")
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
	b.Want(t, "+PONG\r\n", "PING")
}

// TestLimitOfCommandsRefuses checks the error when commands would have to wait for longer than a
// second, also in a transaction. A client that leaves meanwhile is noticed.
func TestLimitOfCommandsRefuses(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := limited(t, redis, limits.Limits{limits.Commands: 1})
	a, b := enter(t, l, "app"), enter(t, l, "app")
	a.Want(t, "+OK\r\n", "MULTI")
	refused := false
	for range 20 { // two clients take turns at one command a second
		if err := b.Send(redistest.Command("PING")); err != nil {
			t.Fatal(err)
		}
		if refused = a.Reply(t, "SET", "k", "v") == limitError("app", "commands"); refused {
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
	proxytest.Eventually(t, "the clients have gone", func() bool { return l.Clients() == 0 })
}

// TestLimitOfAddress checks that an address can have so many connections, whoever its users are.
func TestLimitOfAddress(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.AddressClients = 2 })
	a, b := enter(t, l, "app"), l.Dial(t)
	b.Want(t, "+PONG\r\n", "PING")
	if got, err := l.Dial(t).Read(); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("got %q, %v", got, err)
	}
	a.Close()
	proxytest.Eventually(t, "the place of a closed client is free", func() bool {
		c := l.Dial(t)
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
	l := proxytest.Start(t, []string{redis.Addr}, requireAuth, func(o *proxytest.Options) {
		o.Front.LoginTime = 4 * time.Second
	})
	user, stranger := enter(t, l, "app"), l.Dial(t)
	stranger.Want(t, noAuth, "PING")
	if got, err := stranger.Read(); err == nil {
		t.Errorf("got %q", got)
	}
	user.Want(t, "+PONG\r\n", "PING")
	if n := l.Figures().Disconnections["login_timeout"]; n != 1 {
		t.Errorf("counted %d", n)
	}
}

// TestIdleClientsAreClosed checks that idle clients are closed, but no holders, subscribers and
// clients that block.
func TestIdleClientsAreClosed(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.IdleTime = 4 * time.Second })
	holder, subscriber, blocked, idle, silent := l.Dial(t), l.Dial(t), l.Dial(t), l.Dial(t), l.Dial(t)
	proxytest.Token(t, holder, "lock")
	subscriber.Reply(t, "SUBSCRIBE", "c")
	if err := blocked.Send(redistest.Command("BLPOP", "l", "0")); err != nil {
		t.Fatal(err)
	}
	idle.Want(t, "+PONG\r\n", "PING")
	for _, c := range []*redistest.Client{idle, silent} {
		if got, err := c.Read(); err == nil {
			t.Errorf("got %q", got)
		}
	}
	l.Dial(t).Want(t, ":1\r\n", "LPUSH", "l", "v")
	if got, err := blocked.Read(); err != nil || got != "*2\r\n$1\r\nl\r\n$1\r\nv\r\n" {
		t.Errorf("blocked: %q, %v", got, err)
	}
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "lock")
	subscriber.Want(t, "*2\r\n$4\r\npong\r\n$0\r\n\r\n", "PING")
}

// TestAcceptRate checks that connections beyond the rate are served later.
func TestAcceptRate(t *testing.T) {
	t.Parallel()
	redis, _ := startOpen(t)
	l := proxytest.Start(t, []string{redis.Addr}, func(o *proxytest.Options) { o.Front.AcceptRate = 4 })
	for range 6 { // four come at once
		l.Dial(t).Want(t, "+PONG\r\n", "PING")
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
	admin.Want(t, "+OK\r\n", "SET", "large", strings.Repeat("x", size))
	l := limited(t, redis, limits.Limits{limits.Output: size})
	silent := func(user string, hold bool) *redistest.Client {
		c := enter(t, l, user)
		if hold {
			proxytest.Token(t, c, "lock")
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
	proxytest.Eventually(t, "two clients are closed", func() bool {
		return l.Figures().Disconnections["user_output_limit"] == 2
	})
	for _, c := range []*redistest.Client{holder, other} {
		if got, err := c.Read(); len(got) < size || err != nil {
			t.Errorf("a client who may stay got %d bytes, %v", len(got), err)
		}
	}
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "lock")
	if n := l.Figures().LimitRefusals["output"]; n != 2 {
		t.Errorf("counted %d", n)
	}
}
