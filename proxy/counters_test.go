package proxy

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/command"
)

// TestR8CountersNeedTheUsersRights checks that a user who may only read can wait for a latch but
// cannot take a permit.
func TestR8CountersNeedTheUsersRights(t *testing.T) {
	redis := secured(t)
	admin := dialAddr(t, redis.Addr)
	want(t, admin, "+OK\r\n", "AUTH", "secret")
	want(t, admin, "+OK\r\n", "ACL", "SETUSER", "reader", "on", ">reads", "~*", "-@all", "+@read", "+@connection")
	l := startLeash(t, []string{redis.Addr}, withPassword)
	bob, reader := l.dial(t), l.dial(t)
	want(t, bob, "-NOAUTH Authentication required.\r\n", "SEM.TAKE", "bob:1")
	want(t, bob, "+OK\r\n", "AUTH", "bob", "builder")
	want(t, reader, "+OK\r\n", "AUTH", "reader", "reads")
	for _, name := range []string{"SEM.TAKE", "SEM.GIVE", "SEM.INIT", "SEM.RESIZE", "LATCH.SET", "LATCH.DOWN",
		"SEM.ACQUIRE", "SEM.RELEASE"} {
		args := []string{name, "bob:1", "1"}
		if name == "LATCH.DOWN" || name == "SEM.ACQUIRE" || name == "SEM.RELEASE" {
			args = args[:2]
		}
		o := command.New(nil).Own([]byte(name))
		want(t, reader, "-"+o.Denial(false)+"\r\n", args...)
		args[1] = "alice:1"
		want(t, bob, "-"+o.Denial(true)+"\r\n", args...)
	}
	want(t, admin, ":0\r\n", "EXISTS", "alice:1", "bob:1")
	want(t, bob, ":1\r\n", "LATCH.SET", "bob:1", "1")
	want(t, reader, ":1\r\n", "LATCH.GET", "bob:1")
	want(t, reader, ":0\r\n", "LATCH.AWAIT", "bob:1")
	want(t, reader, "*8\r\n$5\r\ntotal\r\n:1\r\n$9\r\navailable\r\n:1\r\n$4\r\nheld\r\n:0\r\n$7\r\nwaiters\r\n:0\r\n", "SEM.INFO", "bob:1")
	if hello := do(t, bob, "HELLO", "3"); hello[0] != '%' {
		t.Fatalf("HELLO: %q", hello)
	}
	want(t, bob, "%4\r\n$5\r\ntotal\r\n:1\r\n$9\r\navailable\r\n:1\r\n$4\r\nheld\r\n:0\r\n$7\r\nwaiters\r\n:0\r\n",
		"SEM.INFO", "bob:1")
}

// TestR15CountersAreBarriers checks that earlier commands of a session have run before its counter
// command wakes others, and that a waiting connection can close.
func TestR15CountersAreBarriers(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterOptions{})
	l := startLeash(t, c.Addrs())
	a, b, gone := l.dial(t), l.dial(t), l.dial(t)
	for round := range 20 {
		want(t, a, ":1\r\n", "LATCH.SET", "done", "1")
		send(t, b, redistest.Command("LATCH.AWAIT", "done", "BLOCK", "0"))
		stock := strings.Repeat("x", round+1)
		send(t, a, redistest.Command("SET", "stock", stock)+redistest.Command("LATCH.DOWN", "done"))
		readReply(t, b, ":1\r\n")
		want(t, b, redistest.Command(stock)[4:], "GET", "stock")
		readReply(t, a, "+OK\r\n")
		readReply(t, a, ":0\r\n")
	}
	send(t, gone, redistest.Command("SEM.TAKE", "permits", "BLOCK", "0"))
	eventually(t, "it waits", func() bool { return l.locks.Stats().Waiters == 1 })
	gone.Close()
	eventually(t, "it has left", func() bool { return l.locks.Stats().Waiters == 0 })
	want(t, a, ":1\r\n", "SEM.GIVE", "permits")
	want(t, b, ":1\r\n", "SEM.TAKE", "permits", "BLOCK", "0")
}

func send(t testing.TB, c *redistest.Client, raw string) {
	t.Helper()
	if err := c.Send(raw); err != nil {
		t.Fatal(err)
	}
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
	l := startLeash(t, c.Addrs(), watchdog(4*time.Second))
	a := l.dial(t)
	want(t, a, ":1\r\n", "SEM.INIT", "pool", "3")
	for _, end := range []func(c *redistest.Client){
		func(c *redistest.Client) { c.Close() },
		func(c *redistest.Client) { want(t, c, "+OK\r\n", "QUIT") },
		func(c *redistest.Client) { want(t, c, "+RESET\r\n", "RESET") },
		func(c *redistest.Client) { _ = c.Conn().(*net.TCPConn).SetLinger(0); c.Close() },
	} {
		holder, waiter := l.dial(t), l.dial(t)
		if got := do(t, holder, "SEM.ACQUIRE", "pool", "COUNT", "3"); !strings.HasPrefix(got, "*3\r\n$32\r\n") {
			t.Fatalf("got %q", got)
		}
		want(t, a, "$-1\r\n", "SEM.ACQUIRE", "pool")
		send(t, waiter, redistest.Command("SEM.ACQUIRE", "pool", "COUNT", "3", "BLOCK", "0"))
		eventually(t, "it waits", func() bool { return l.locks.Stats().Waiters == 1 })
		end(holder)
		if got, err := waiter.Read(); err != nil || !strings.HasPrefix(got, "*3\r\n$32\r\n") {
			t.Fatalf("got %q, %v", got, err)
		}
		want(t, waiter, "+RESET\r\n", "RESET")
	}
	if lost := l.locks.Stats().Losses["gone"]; lost != 0 {
		t.Errorf("%d permits were reported as lost", lost)
	}
}

// TestR27LostPermitClosesConnection checks that the connection is closed when Redisson releases
// or deletes its permit.
func TestR27LostPermitClosesConnection(t *testing.T) {
	server := redistest.Start(t)
	l := startLeash(t, []string{server.Addr}, watchdog(4*time.Second))
	a, admin := l.dial(t), dialAddr(t, server.Addr)
	want(t, a, ":1\r\n", "SEM.INIT", "pool", "1")
	do(t, a, "SEM.ACQUIRE", "pool")
	want(t, admin, ":1\r\n", "DEL", "{pool}:timeout")
	if got, err := a.Read(); err != io.EOF {
		t.Fatalf("got %q, %v, want the end of the connection", got, err)
	}
	eventually(t, "it is logged", func() bool { return strings.Contains(l.logs.tail(20), "lock lost") })
}
