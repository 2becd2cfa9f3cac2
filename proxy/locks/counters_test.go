package locks_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/command"
)

// TestR8CountersNeedTheUsersRights checks that a user who may only read can wait for a latch but
// cannot take a permit.
func TestR8CountersNeedTheUsersRights(t *testing.T) {
	redis := proxytest.Secured(t)
	admin := proxytest.Dial(t, redis.Addr)
	admin.Want(t, "+OK\r\n", "AUTH", "secret")
	admin.Want(t, "+OK\r\n", "ACL", "SETUSER", "reader", "on", ">reads", "~*", "-@all", "+@read", "+@connection")
	l := proxytest.Start(t, []string{redis.Addr}, proxytest.WithPassword)
	bob, reader := l.Dial(t), l.Dial(t)
	bob.Want(t, "-NOAUTH Authentication required.\r\n", "SEM.TAKE", "bob:1")
	bob.Want(t, "+OK\r\n", "AUTH", "bob", "builder")
	reader.Want(t, "+OK\r\n", "AUTH", "reader", "reads")
	for _, name := range []string{"SEM.TAKE", "SEM.GIVE", "SEM.INIT", "SEM.RESIZE", "LATCH.SET", "LATCH.DOWN",
		"SEM.ACQUIRE", "SEM.RELEASE"} {
		args := []string{name, "bob:1", "1"}
		if name == "LATCH.DOWN" || name == "SEM.ACQUIRE" || name == "SEM.RELEASE" {
			args = args[:2]
		}
		o := command.New(nil).Own([]byte(name))
		reader.Want(t, "-"+o.Denial(false)+"\r\n", args...)
		args[1] = "alice:1"
		bob.Want(t, "-"+o.Denial(true)+"\r\n", args...)
	}
	admin.Want(t, ":0\r\n", "EXISTS", "alice:1", "bob:1")
	bob.Want(t, ":1\r\n", "LATCH.SET", "bob:1", "1")
	reader.Want(t, ":1\r\n", "LATCH.GET", "bob:1")
	reader.Want(t, ":0\r\n", "LATCH.AWAIT", "bob:1")
	reader.Want(t, "*8\r\n$5\r\ntotal\r\n:1\r\n$9\r\navailable\r\n:1\r\n$4\r\nheld\r\n:0\r\n$7\r\nwaiters\r\n:0\r\n", "SEM.INFO", "bob:1")
	if hello := bob.Reply(t, "HELLO", "3"); hello[0] != '%' {
		t.Fatalf("HELLO: %q", hello)
	}
	bob.Want(t, "%4\r\n$5\r\ntotal\r\n:1\r\n$9\r\navailable\r\n:1\r\n$4\r\nheld\r\n:0\r\n$7\r\nwaiters\r\n:0\r\n",
		"SEM.INFO", "bob:1")
}

// TestR15CountersAreBarriers checks that earlier commands of a session have run before its counter
// command wakes others, and that a waiting connection can close.
func TestR15CountersAreBarriers(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs())
	a, b, gone := l.Dial(t), l.Dial(t), l.Dial(t)
	for round := range 20 {
		a.Want(t, ":1\r\n", "LATCH.SET", "done", "1")
		proxytest.Send(t, b, redistest.Command("LATCH.AWAIT", "done", "BLOCK", "0"))
		stock := strings.Repeat("x", round+1)
		proxytest.Send(t, a, redistest.Command("SET", "stock", stock)+redistest.Command("LATCH.DOWN", "done"))
		readReply(t, b, ":1\r\n")
		b.Want(t, redistest.Command(stock)[4:], "GET", "stock")
		readReply(t, a, "+OK\r\n")
		readReply(t, a, ":0\r\n")
	}
	proxytest.Send(t, gone, redistest.Command("SEM.TAKE", "permits", "BLOCK", "0"))
	proxytest.Eventually(t, "it waits", func() bool { return l.Locks.Stats().Waiters == 1 })
	gone.Close()
	proxytest.Eventually(t, "it has left", func() bool { return l.Locks.Stats().Waiters == 0 })
	a.Want(t, ":1\r\n", "SEM.GIVE", "permits")
	b.Want(t, ":1\r\n", "SEM.TAKE", "permits", "BLOCK", "0")
}

func readReply(t testing.TB, c *redistest.Client, reply string) {
	t.Helper()
	if got, err := c.Read(); err != nil || got != reply {
		t.Fatalf("got %q, %v, want %q", got, err, reply)
	}
}

// TestR28PermitsAreReleasedWithTheConnection checks that permits of a client that closes or is
// killed are released. Permits of a client that is reset run out, because it may still be at work.
func TestR28PermitsAreReleasedWithTheConnection(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := proxytest.Start(t, c.Addrs(), proxytest.Watchdog(4*time.Second))
	a := l.Dial(t)
	a.Want(t, ":1\r\n", "SEM.INIT", "pool", "3")
	for _, end := range []func(c *redistest.Client){
		func(c *redistest.Client) { c.Close() },
		func(c *redistest.Client) { c.Want(t, "+OK\r\n", "QUIT") },
		func(c *redistest.Client) { c.Want(t, "+RESET\r\n", "RESET") },
		func(c *redistest.Client) { _ = c.Conn().(*net.TCPConn).SetLinger(0); c.Close() },
	} {
		holder, waiter := l.Dial(t), l.Dial(t)
		if got := holder.Reply(t, "SEM.ACQUIRE", "pool", "COUNT", "3"); !strings.HasPrefix(got, "*3\r\n$32\r\n") {
			t.Fatalf("got %q", got)
		}
		a.Want(t, "$-1\r\n", "SEM.ACQUIRE", "pool")
		proxytest.Send(t, waiter, redistest.Command("SEM.ACQUIRE", "pool", "COUNT", "3", "BLOCK", "0"))
		proxytest.Eventually(t, "it waits", func() bool { return l.Locks.Stats().Waiters == 1 })
		end(holder)
		if got, err := waiter.Read(); err != nil || !strings.HasPrefix(got, "*3\r\n$32\r\n") {
			t.Fatalf("got %q, %v", got, err)
		}
		waiter.Want(t, "+RESET\r\n", "RESET")
	}
	if lost := l.Locks.Stats().Losses["gone"]; lost != 0 {
		t.Errorf("%d permits were reported as lost", lost)
	}
}

// TestR27LostPermitClosesConnection checks that the connection is closed when Redisson releases
// or deletes its permit.
func TestR27LostPermitClosesConnection(t *testing.T) {
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr}, proxytest.Watchdog(4*time.Second))
	a, admin := l.Dial(t), proxytest.Dial(t, server.Addr)
	a.Want(t, ":1\r\n", "SEM.INIT", "pool", "1")
	a.Reply(t, "SEM.ACQUIRE", "pool")
	admin.Want(t, ":1\r\n", "DEL", "{pool}:timeout")
	if got, err := a.Read(); err != io.EOF {
		t.Fatalf("got %q, %v, want the end of the connection", got, err)
	}
	proxytest.Eventually(t, "it is logged", func() bool { return strings.Contains(l.Logs.Tail(20), "lock lost") })
}
