package locks_test

import (
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestR28AttachAfterReconnect checks that a hold with ONCLOSE EXPIRE survives a close, QUIT and
// RESET of its client. Its client can attach from any connection and keeps the token.
func TestR28AttachAfterReconnect(t *testing.T) {
	t.Parallel() // it waits most of the time
	cluster := redistest.StartCluster(t, redistest.ClusterOptions{})
	one, two := proxytest.Start(t, cluster.Addrs(), proxytest.Watchdog(6*time.Second)),
		proxytest.Start(t, cluster.Addrs(), proxytest.Watchdog(6*time.Second))
	for name, end := range map[string]func(c *redistest.Client){
		"close": func(c *redistest.Client) { c.Close() },
		"quit":  func(c *redistest.Client) { c.Want(t, "+OK\r\n", "QUIT") },
		"reset": func(c *redistest.Client) { c.Want(t, "+RESET\r\n", "RESET") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, next := range []*proxytest.Leash{one, two} {
				c := one.Dial(t)
				number := proxytest.Token(t, c, name, "OWNER", "me", "ONCLOSE", "EXPIRE")
				end(c)
				again := next.Dial(t)
				if name == "reset" && next == one {
					again = c
				}
				again.Want(t, ":"+number+"\r\n", "LOCK.ATTACH", name, "OWNER", "me", "TOKEN", number)
				time.Sleep(6500 * time.Millisecond) // longer than it lasts if it is not renewed
				next.Dial(t).Want(t, "$-1\r\n", "LOCK.ACQUIRE", name)
				again.Want(t, ":1\r\n", "LOCK.RELEASE", name)
			}
		})
	}
}

// TestR25TheOldConnectionIsClosed checks that LOCK.ATTACH closes the hold's old connection, on this
// Leash or another one, and that the connection's other locks run out.
func TestR25TheOldConnectionIsClosed(t *testing.T) {
	server := redistest.Start(t)
	one, two := proxytest.Start(t, []string{server.Addr}), proxytest.Start(t, []string{server.Addr})
	for i, next := range []*proxytest.Leash{one, two} {
		old, new, key := one.Dial(t), next.Dial(t), []string{"a", "b"}[i]
		number := proxytest.Token(t, old, key, "OWNER", "me")
		proxytest.Token(t, old, "other "+key)
		new.Want(t, ":"+number+"\r\n", "LOCK.ATTACH", key, "OWNER", "me", "TOKEN", number)
		proxytest.WantClosed(t, old)
		new.Want(t, "$-1\r\n", "LOCK.ACQUIRE", "other "+key)
		new.Want(t, ":1\r\n", "LOCK.CHECK", key, "TOKEN", number)
		new.Want(t, ":1\r\n", "LOCK.RELEASE", key)
	}
}

// TestR31AttachAfterStop checks that holds that a stopping Leash leaves behind have their
// full TTL and can be attached at another Leash.
func TestR31AttachAfterStop(t *testing.T) {
	server := redistest.Start(t)
	short := func(o *proxytest.Options) { o.Front.DrainTimeout = 200 * time.Millisecond }
	one, two := proxytest.Start(t, []string{server.Addr}, short), proxytest.Start(t, []string{server.Addr})
	old, new := one.Dial(t), two.Dial(t)
	number := proxytest.Token(t, old, "k", "OWNER", "me")
	if err := server.Client().PExpire(t.Context(), "k", 10*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	one.Stop()
	proxytest.WantClosed(t, old)
	if ttl := server.Client().PTTL(t.Context(), "k").Val(); ttl < 20*time.Second {
		t.Errorf("it was left with %v", ttl)
	}
	new.Want(t, ":"+number+"\r\n", "LOCK.ATTACH", "k", "OWNER", "me", "TOKEN", number)
	new.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
}

// TestR31StopGivesHoldersTime checks that holders can go on without taking new locks while Leash
// stops, and that the stop ends with the last holder.
func TestR31StopGivesHoldersTime(t *testing.T) {
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr}, func(o *proxytest.Options) { o.Front.DrainTimeout = time.Hour })
	holder := l.Dial(t)
	proxytest.Token(t, holder, "k", "OWNER", "me")
	stopped := make(chan struct{})
	go func() { defer close(stopped); l.Stop() }()
	proxytest.Eventually(t, "it stops", func() bool { return l.Figures().Draining })
	const draining = "-ERR this Leash is shutting down and grants no locks\r\n"
	for _, args := range [][]string{{"other"}, {"other", "BLOCK", "0"}, {"other", "OWNER", "me"}} {
		holder.Want(t, draining, append([]string{"LOCK.ACQUIRE"}, args...)...)
	}
	holder.Want(t, draining, "LOCK.MACQUIRE", "2", "a", "b")
	holder.Want(t, "+OK\r\n", "SET", "stock", "6")
	holder.Want(t, ":0\r\n", "EXISTS", "other", "a", "b")
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
	proxytest.WantClosed(t, holder)
	select {
	case <-stopped:
	case <-time.After(30 * time.Second):
		t.Error("Leash still waits although no lock is held")
	}
}

// TestR31StopAnswersAwaitLoss checks that a stop answers LOCK.AWAITLOSS and does not wait for it.
func TestR31StopAnswersAwaitLoss(t *testing.T) {
	server := redistest.Start(t)
	one := proxytest.Start(t, []string{server.Addr}, func(o *proxytest.Options) {
		o.Front.DrainTimeout = 200 * time.Millisecond
	})
	holder, watcher, other := one.Dial(t), one.Dial(t), one.Dial(t)
	number := proxytest.Token(t, holder, "k")
	if err := watcher.Send(redistest.Command("LOCK.AWAITLOSS", "k", "TOKEN", number, "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it waits", func() bool {
		return strings.Contains(other.Reply(t, "INFO", "leash"), "leash_waiters:1\r\n")
	})
	one.Stop()
	if reply, err := watcher.Read(); err != nil || reply != "-ERR this Leash is shutting down and watches no locks\r\n" {
		t.Errorf("got %q %v", reply, err)
	}
	proxytest.WantClosed(t, watcher)
}

// TestR27OnLossErrorKeepsTheConnection checks that a connection with ONLOSS ERROR survives a loss,
// in RESP2 and RESP3.
func TestR27OnLossErrorKeepsTheConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr}, proxytest.Watchdog(4*time.Second))
	for i, protocol := range []string{"2", "3"} {
		c := l.Dial(t)
		c.Reply(t, "HELLO", protocol)
		proxytest.Token(t, c, "k", "ONLOSS", "ERROR")
		proxytest.Token(t, c, "other")
		c.Want(t, ":1\r\n", "DEL", "k")
		proxytest.Eventually(t, "the next renewal finds it lost", func() bool { return l.Locks.Stats().Losses["gone"] == int64(i+1) })
		c.Want(t, "+OK\r\n", "SET", "data", "1")
		c.Want(t, ":0\r\n", "LOCK.CHECK", "other", "TOKEN", "1")
		c.Want(t, "-LOCKLOST k gone\r\n", "LOCK.TTL", "k")
		c.Want(t, ":-2\r\n", "LOCK.TTL", "k")
		c.Want(t, ":1\r\n", "LOCK.RELEASE", "other")
	}
}

// TestR30BreakEndsTheHoldersConnection checks that LOCK.BREAK and MAXHOLD end the holder's
// connection.
func TestR30BreakEndsTheHoldersConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := proxytest.Start(t, []string{server.Addr}), proxytest.Start(t, []string{server.Addr})
	c := two.Dial(t)
	for _, where := range []*proxytest.Leash{one, two} {
		holder := where.Dial(t)
		proxytest.Token(t, holder, "k")
		breakLock(t, c, "k")
		proxytest.WantClosed(t, holder)
		c.Want(t, ":0\r\n", "LOCK.BREAK", "k")
	}
	holder := one.Dial(t)
	proxytest.Token(t, holder, "k", "MAXHOLD", "4000")
	proxytest.Token(t, c, "k", "BLOCK", "20000")
	proxytest.WantClosed(t, holder)
	c.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
}
