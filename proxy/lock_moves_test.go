package proxy

import (
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// wantClosed checks that Leash has closed a client's connection.
func wantClosed(t *testing.T, c *redistest.Client) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; {
		if _, err := c.Do("PING"); err != nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the connection is still open")
		}
	}
}

// TestR28AttachAfterReconnect checks that a hold with ONCLOSE EXPIRE survives a close, QUIT and
// RESET of its client. Its client can attach from any connection and keeps the token.
func TestR28AttachAfterReconnect(t *testing.T) {
	t.Parallel() // it waits most of the time
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	one, two := startLeash(t, cluster.Addrs(), watchdog(6*time.Second)),
		startLeash(t, cluster.Addrs(), watchdog(6*time.Second))
	for name, end := range map[string]func(c *redistest.Client){
		"close": func(c *redistest.Client) { c.Close() },
		"quit":  func(c *redistest.Client) { want(t, c, "+OK\r\n", "QUIT") },
		"reset": func(c *redistest.Client) { want(t, c, "+RESET\r\n", "RESET") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, next := range []*leash{one, two} {
				c := one.dial(t)
				number := token(t, c, name, "OWNER", "me", "ONCLOSE", "EXPIRE")
				end(c)
				again := next.dial(t)
				if name == "reset" && next == one {
					again = c
				}
				want(t, again, ":"+number+"\r\n", "LOCK.ATTACH", name, "OWNER", "me", "TOKEN", number)
				time.Sleep(6500 * time.Millisecond) // longer than it lasts if it is not renewed
				want(t, next.dial(t), "$-1\r\n", "LOCK.ACQUIRE", name)
				want(t, again, ":1\r\n", "LOCK.RELEASE", name)
			}
		})
	}
}

// TestR25TheOldConnectionIsClosed checks that LOCK.ATTACH closes the hold's old connection, on this
// Leash or another one, and that the connection's other locks run out.
func TestR25TheOldConnectionIsClosed(t *testing.T) {
	server := redistest.Start(t)
	one, two := startLeash(t, []string{server.Addr}), startLeash(t, []string{server.Addr})
	for i, next := range []*leash{one, two} {
		old, new, key := one.dial(t), next.dial(t), []string{"a", "b"}[i]
		number := token(t, old, key, "OWNER", "me")
		token(t, old, "other "+key)
		want(t, new, ":"+number+"\r\n", "LOCK.ATTACH", key, "OWNER", "me", "TOKEN", number)
		wantClosed(t, old)
		want(t, new, "$-1\r\n", "LOCK.ACQUIRE", "other "+key)
		want(t, new, ":1\r\n", "LOCK.CHECK", key, "TOKEN", number)
		want(t, new, ":1\r\n", "LOCK.RELEASE", key)
	}
}

// TestR31AttachAfterStop checks that holds that a stopping Leash leaves behind have their
// full TTL and can be attached at another Leash.
func TestR31AttachAfterStop(t *testing.T) {
	server := redistest.Start(t)
	short := func(o *options) { o.front.DrainTimeout = 200 * time.Millisecond }
	one, two := startLeash(t, []string{server.Addr}, short), startLeash(t, []string{server.Addr})
	old, new := one.dial(t), two.dial(t)
	number := token(t, old, "k", "OWNER", "me")
	if err := server.Client().PExpire(t.Context(), "k", 10*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	one.stop()
	wantClosed(t, old)
	if ttl := server.Client().PTTL(t.Context(), "k").Val(); ttl < 20*time.Second {
		t.Errorf("it was left with %v", ttl)
	}
	want(t, new, ":"+number+"\r\n", "LOCK.ATTACH", "k", "OWNER", "me", "TOKEN", number)
	want(t, new, ":1\r\n", "LOCK.RELEASE", "k")
}

// TestR31StopGivesHoldersTime checks that holders can go on without taking new locks while Leash
// stops, and that the stop ends with the last holder.
func TestR31StopGivesHoldersTime(t *testing.T) {
	server := redistest.Start(t)
	l := startLeash(t, []string{server.Addr}, func(o *options) { o.front.DrainTimeout = time.Hour })
	holder := l.dial(t)
	token(t, holder, "k", "OWNER", "me")
	stopped := make(chan struct{})
	go func() { defer close(stopped); l.stop() }()
	eventually(t, "it stops", func() bool { return l.Figures().Draining })
	const draining = "-ERR this Leash is shutting down and grants no locks\r\n"
	for _, args := range [][]string{{"other"}, {"other", "BLOCK", "0"}, {"other", "OWNER", "me"}} {
		want(t, holder, draining, append([]string{"LOCK.ACQUIRE"}, args...)...)
	}
	want(t, holder, draining, "LOCK.MACQUIRE", "2", "a", "b")
	want(t, holder, "+OK\r\n", "SET", "stock", "6")
	want(t, holder, ":0\r\n", "EXISTS", "other", "a", "b")
	want(t, holder, ":1\r\n", "LOCK.RELEASE", "k")
	wantClosed(t, holder)
	select {
	case <-stopped:
	case <-time.After(30 * time.Second):
		t.Error("Leash still waits although no lock is held")
	}
}

// TestR31StopAnswersAwaitLoss checks that a stop answers LOCK.AWAITLOSS and does not wait for it.
func TestR31StopAnswersAwaitLoss(t *testing.T) {
	server := redistest.Start(t)
	one := startLeash(t, []string{server.Addr}, func(o *options) { o.front.DrainTimeout = 200 * time.Millisecond })
	holder, watcher, other := one.dial(t), one.dial(t), one.dial(t)
	number := token(t, holder, "k")
	if err := watcher.Send(redistest.Command("LOCK.AWAITLOSS", "k", "TOKEN", number, "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits", func() bool {
		return strings.Contains(do(t, other, "INFO", "leash"), "leash_waiters:1\r\n")
	})
	one.stop()
	if reply, err := watcher.Read(); err != nil || reply != "-ERR this Leash is shutting down and grants no locks\r\n" {
		t.Errorf("got %q %v", reply, err)
	}
	wantClosed(t, watcher)
}

// TestR27OnLossErrorKeepsTheConnection checks that a connection with ONLOSS ERROR survives a loss,
// in RESP2 and RESP3.
func TestR27OnLossErrorKeepsTheConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := startLeash(t, []string{server.Addr}, watchdog(4*time.Second))
	for i, protocol := range []string{"2", "3"} {
		c := l.dial(t)
		do(t, c, "HELLO", protocol)
		token(t, c, "k", "ONLOSS", "ERROR")
		token(t, c, "other")
		want(t, c, ":1\r\n", "DEL", "k")
		eventually(t, "the next renewal finds it lost", func() bool { return l.locks.Stats().Losses["gone"] == int64(i+1) })
		want(t, c, "+OK\r\n", "SET", "data", "1")
		want(t, c, ":0\r\n", "LOCK.CHECK", "other", "TOKEN", "1")
		want(t, c, "-LOCKLOST k gone\r\n", "LOCK.TTL", "k")
		want(t, c, ":-2\r\n", "LOCK.TTL", "k")
		want(t, c, ":1\r\n", "LOCK.RELEASE", "other")
	}
}

// TestR30BreakEndsTheHoldersConnection checks that LOCK.BREAK and MAXHOLD end the holder's
// connection.
func TestR30BreakEndsTheHoldersConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := startLeash(t, []string{server.Addr}), startLeash(t, []string{server.Addr})
	c := two.dial(t)
	for _, where := range []*leash{one, two} {
		holder := where.dial(t)
		token(t, holder, "k")
		breakLock(t, c, "k")
		wantClosed(t, holder)
		want(t, c, ":0\r\n", "LOCK.BREAK", "k")
	}
	holder := one.dial(t)
	token(t, holder, "k", "MAXHOLD", "4000")
	token(t, c, "k", "BLOCK", "20000")
	wantClosed(t, holder)
	want(t, c, ":1\r\n", "LOCK.RELEASE", "k")
}
