package proxy_test

import (
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy"
)

// TestR29HoldersHaveTightKeepalives checks that a socket with a hold or a waiter has tight
// keepalives, and the kernel's defaults otherwise (R29).
func TestR29HoldersHaveTightKeepalives(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	client := l.Dial(t)
	client.Want(t, "+PONG\r\n", "PING")
	idle := func() (seconds int) {
		control(t, l.Sockets()[0], func(fd uintptr) {
			seconds, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
		})
		return seconds
	}
	usual := idle()
	if usual <= 5 {
		t.Fatalf("keepalives after %d s without a lock", usual)
	}
	proxytest.Token(t, client, "k")
	if got := idle(); got != 5 {
		t.Errorf("keepalives of a holder after %d s, want 5", got)
	}
	client.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
	proxytest.Eventually(t, "the usual keepalives after the release", func() bool { return idle() == usual })
	proxytest.Token(t, client, "k")
	if got := idle(); got != 5 {
		t.Errorf("keepalives of a holder once more after %d s, want 5", got)
	}
	l.Change(proxy.Settings{PeerTimeout: 40 * time.Second})
	proxytest.Eventually(t, "keepalives of the new peer timeout", func() bool { return idle() == 19 })
	client.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
	proxytest.Eventually(t, "the usual keepalives once more", func() bool { return idle() == usual })
}

// control calls f with the descriptor of a socket.
func control(t *testing.T, conn net.Conn, f func(fd uintptr)) {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(f) // the session may just have ended
}

// TestR29LocksOfAVanishedHostRunOut checks that the locks of a vanished host run out and its
// waiters end, whatever the connection was doing (R28, R29).
func TestR29LocksOfAVanishedHostRunOut(t *testing.T) {
	t.Parallel() // it waits most of the time
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, proxytest.Watchdog(3*time.Second), func(o *proxytest.Options) {
		o.Front.PeerTimeout = 4 * time.Second
	})
	other := l.Dial(t)
	other.Want(t, ":33554432\r\n", "SETRANGE", "big", strconv.Itoa(32<<20-1), "x")
	proxytest.Token(t, other, "taken")
	start := time.Now()
	waiters := make(map[string]*redistest.Client)
	for name, then := range map[string]func(c *redistest.Client, conn *net.TCPConn){
		"idle": func(_ *redistest.Client, conn *net.TCPConn) { redistest.Vanish(t, conn) },
		"with a reply on its way": func(c *redistest.Client, conn *net.TCPConn) {
			if err := c.Send(redistest.Command("BLPOP", "list", "0")); err != nil {
				t.Fatal(err)
			}
			proxytest.Eventually(t, "it blocks", func() bool {
				return strings.Contains(proxytest.Text(t, other.Reply(t, "CLIENT", "LIST")), "cmd=blpop")
			})
			redistest.Vanish(t, conn)
			other.Want(t, ":1\r\n", "LPUSH", "list", "x")
		},
		"having stopped to read": func(c *redistest.Client, conn *net.TCPConn) {
			if err := c.Send(redistest.Command("GET", "big")); err != nil {
				t.Fatal(err)
			}
			proxytest.Eventually(t, "its kernel has no more room", func() bool { return waitsForWindow(t, l) })
			redistest.Vanish(t, conn)
		},
		"waiting for another lock": func(c *redistest.Client, conn *net.TCPConn) {
			if err := c.Send(redistest.Command("LOCK.ACQUIRE", "taken", "BLOCK", "0")); err != nil {
				t.Fatal(err)
			}
			redistest.Vanish(t, conn)
		},
	} {
		c, conn := proxytest.SilentPeer(t, l)
		proxytest.Token(t, c, name)
		then(c, conn)
		waiter := l.Dial(t)
		waiter.Timeout = 60 * time.Second
		if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", name, "BLOCK", "0")); err != nil {
			t.Fatal(err)
		}
		waiters[name] = waiter
	}
	for name, waiter := range waiters {
		got, err := waiter.Read()
		if err != nil || got[0] != ':' {
			t.Errorf("%s: got %q %v", name, got, err)
		}
		t.Logf("%s: granted after %v", name, time.Since(start))
	}
	proxytest.Eventually(t, "no client waits any more", func() bool { return l.Locks.Stats().Waiters == 0 })
	other.Want(t, ":1\r\n", "LOCK.RELEASE", "taken")
	other.Want(t, ":0\r\n", "EXISTS", "taken")
}

// waitsForWindow reports whether a session has written bytes for which the client's kernel has no
// room.
func waitsForWindow(t *testing.T, l *proxytest.Leash) (waits bool) {
	for _, conn := range l.Sockets() {
		control(t, conn, func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			// the kernel sends window probes
			waits = waits || err == nil && info.Notsent_bytes > 0 && info.Unacked == 0 && info.Backoff > 1
		})
	}
	return waits
}

// TestR29ClientThatDoesNotReadKeepsItsLock checks that a client that is stopped or busy keeps its
// lock while its kernel answers (R29).
func TestR29ClientThatDoesNotReadKeepsItsLock(t *testing.T) {
	t.Parallel() // it waits most of the time
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, proxytest.Watchdog(15*time.Second), func(o *proxytest.Options) {
		o.Front.PeerTimeout = 4 * time.Second
	})
	other := l.Dial(t)
	other.Want(t, ":33554432\r\n", "SETRANGE", "big", strconv.Itoa(32<<20-1), "x")
	c, _ := proxytest.SilentPeer(t, l)
	number := proxytest.Token(t, c, "k")
	if err := c.Send(redistest.Command("GET", "big")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "its kernel has no more room", func() bool { return waitsForWindow(t, l) })
	// between checks
	for start := time.Now(); time.Since(start) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
		other.Want(t, ":1\r\n", "LOCK.CHECK", "k", "TOKEN", number)
	}
	if got, err := c.Read(); err != nil || len(got) < 32<<20 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	c.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
}
