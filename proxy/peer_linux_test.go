package proxy

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leash/internal/redistest"
)

// TestR29HoldersHaveTightKeepalives checks that a socket with a hold or a waiter has tight
// keepalives, and the kernel's defaults otherwise (R29).
func TestR29HoldersHaveTightKeepalives(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := startLeash(t, []string{redis.Addr})
	client := l.dial(t)
	want(t, client, "+PONG\r\n", "PING")
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
	token(t, client, "k")
	if got := idle(); got != 5 {
		t.Errorf("keepalives of a holder after %d s, want 5", got)
	}
	want(t, client, ":1\r\n", "LOCK.RELEASE", "k")
	eventually(t, "the usual keepalives after the release", func() bool { return idle() == usual })
	token(t, client, "k")
	if got := idle(); got != 5 {
		t.Errorf("keepalives of a holder once more after %d s, want 5", got)
	}
	l.Change(Settings{PeerTimeout: 40 * time.Second})
	eventually(t, "keepalives of the new peer timeout", func() bool { return idle() == 19 })
	want(t, client, ":1\r\n", "LOCK.RELEASE", "k")
	eventually(t, "the usual keepalives once more", func() bool { return idle() == usual })
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

// silentPeer opens a client connection whose host can vanish. It sends nothing by itself.
func silentPeer(t *testing.T, l *leash) (*redistest.Client, *net.TCPConn) {
	t.Helper()
	conn, err := (&net.Dialer{KeepAlive: -1}).Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return redistest.NewClient(conn), conn.(*net.TCPConn)
}

// vanish makes the kernel drop all packets for the connection before TCP sees them. To the other
// end, the host is gone.
func vanish(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	dropAll := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	if err := errors.Join(raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &dropAll[0]})
	}), err); err != nil {
		t.Fatal(err)
	}
}

// TestR29LocksOfAVanishedHostRunOut checks that the locks of a vanished host run out and its
// waiters end, whatever the connection was doing (R28, R29).
func TestR29LocksOfAVanishedHostRunOut(t *testing.T) {
	t.Parallel() // it waits most of the time
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	l := startLeash(t, []string{redis.Addr}, watchdog(3*time.Second), func(o *options) {
		o.front.PeerTimeout = 4 * time.Second
	})
	other := l.dial(t)
	want(t, other, ":33554432\r\n", "SETRANGE", "big", strconv.Itoa(32<<20-1), "x")
	token(t, other, "taken")
	start := time.Now()
	waiters := make(map[string]*redistest.Client)
	for name, then := range map[string]func(c *redistest.Client, conn *net.TCPConn){
		"idle": func(_ *redistest.Client, conn *net.TCPConn) { vanish(t, conn) },
		"with a reply on its way": func(c *redistest.Client, conn *net.TCPConn) {
			if err := c.Send(redistest.Command("BLPOP", "list", "0")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it blocks", func() bool {
				return strings.Contains(text(t, do(t, other, "CLIENT", "LIST")), "cmd=blpop")
			})
			vanish(t, conn)
			want(t, other, ":1\r\n", "LPUSH", "list", "x")
		},
		"having stopped to read": func(c *redistest.Client, conn *net.TCPConn) {
			if err := c.Send(redistest.Command("GET", "big")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "its kernel has no more room", func() bool { return waitsForWindow(t, l) })
			vanish(t, conn)
		},
		"waiting for another lock": func(c *redistest.Client, conn *net.TCPConn) {
			if err := c.Send(redistest.Command("LOCK.ACQUIRE", "taken", "BLOCK", "0")); err != nil {
				t.Fatal(err)
			}
			vanish(t, conn)
		},
	} {
		c, conn := silentPeer(t, l)
		token(t, c, name)
		then(c, conn)
		waiter := l.dial(t)
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
	eventually(t, "no client waits any more", func() bool { return l.locks.Stats().Waiters == 0 })
	want(t, other, ":1\r\n", "LOCK.RELEASE", "taken")
	want(t, other, ":0\r\n", "EXISTS", "taken")
}

// waitsForWindow reports whether a session has written bytes for which the client's kernel has no
// room.
func waitsForWindow(t *testing.T, l *leash) (waits bool) {
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
	l := startLeash(t, []string{redis.Addr}, watchdog(6*time.Second), func(o *options) {
		o.front.PeerTimeout = 4 * time.Second
	})
	other := l.dial(t)
	want(t, other, ":33554432\r\n", "SETRANGE", "big", strconv.Itoa(32<<20-1), "x")
	c, _ := silentPeer(t, l)
	number := token(t, c, "k")
	if err := c.Send(redistest.Command("GET", "big")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its kernel has no more room", func() bool { return waitsForWindow(t, l) })
	// between checks
	for start := time.Now(); time.Since(start) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
		want(t, other, ":1\r\n", "LOCK.CHECK", "k", "TOKEN", number)
	}
	if got, err := c.Read(); err != nil || len(got) < 32<<20 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	want(t, c, ":1\r\n", "LOCK.RELEASE", "k")
}
