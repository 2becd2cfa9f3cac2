package leashtest

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leash/internal/redistest"
)

// TestR28LocksBehindHAProxy: R28. HAProxy, set up as docs/operations.md says, detects that a
// client's host has vanished. It then closes the connection to Leash, and the client's locks run
// out. The same happens if a client closes its connection. QUIT releases the locks at once.
func TestR28LocksBehindHAProxy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, balanced := startBalanced(t, dir, redistest.Start(t).Addr, "--watchdog-timeout", "5s")
	balancer := balance(t, dir, balanced)

	waiters := make(map[string]*redistest.Client)
	for name, end := range map[string]func(c *redistest.Client) error{
		"vanished": func(c *redistest.Client) error { return vanish(c.Conn().(*net.TCPConn)) },
		"closed":   func(c *redistest.Client) error { return c.Close() },
		"quit":     func(c *redistest.Client) error { _, err := c.Do("QUIT"); return err },
	} {
		c, waiter := dialMute(t, balancer.Addr), dialMute(t, balancer.Addr)
		if got, err := c.Do("LOCK.ACQUIRE", name); err != nil || got[0] != ':' {
			t.Fatal(got, err)
		}
		if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", name, "BLOCK", "0")); err != nil {
			t.Fatal(err)
		}
		if err := end(c); err != nil {
			t.Fatal(err)
		}
		waiter.Timeout = time.Minute
		waiters[name] = waiter
	}
	start := time.Now()
	for _, name := range []string{"quit", "closed", "vanished"} {
		if got, err := waiters[name].Read(); err != nil || got[0] != ':' {
			t.Errorf("%s: got %q %v", name, got, err)
		}
		t.Logf("%s: granted after %v", name, time.Since(start))
	}
}

// dialMute connects as a client whose host can vanish: it sends nothing by itself.
func dialMute(t *testing.T, addr string) *redistest.Client {
	t.Helper()
	conn, err := (&net.Dialer{KeepAlive: -1}).Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return redistest.NewClient(conn)
}

// vanish makes the kernel drop everything that comes for the connection. To the other end, the
// client's host is gone.
func vanish(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	dropAll := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &dropAll[0]})
	})
	if err != nil {
		return err
	}
	return refused
}
