package client_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestHalfClosedWhileBlocked checks that a client that closes its sending side while a command
// blocks gets no more replies, as in Redis. The commands behind that one do not run.
func TestHalfClosedWhileBlocked(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	direct := redistest.Connect(t, s.Addr)
	direct.Want("+OK\r\n", "XGROUP", "CREATE", "stream", "group", "$", "MKSTREAM")
	l := proxytest.Start(t, []string{s.Addr})
	for _, commands := range []string{
		"BLPOP none 0",
		"BRPOP none other 0",
		"BLMOVE none other LEFT LEFT 0",
		"BRPOPLPUSH none other 0",
		"BLMPOP 0 1 none LEFT",
		"BZPOPMIN none 0",
		"XREAD BLOCK 0 STREAMS stream $",
		"XREADGROUP GROUP group me BLOCK 0 STREAMS stream >",
		"WAIT 1 0",
		"PING; SET k v; BLPOP none 0",
		"BLPOP none 0; INCR behind",
		"MULTI; INCR behind; EXEC; BLPOP none 0",
	} {
		var got [2]string
		for i, addr := range []string{s.Addr, l.Addr} {
			direct.Do("DEL", "behind")
			got[i] = halfClosed(t, addr, commands)
			direct.Want(map[bool]string{true: "$1\r\n1\r\n",
				false: "$-1\r\n"}[strings.HasPrefix(commands, "MULTI")], "GET", "behind")
		}
		if got[0] != got[1] {
			t.Errorf("%s: Redis said %q, Leash %q", commands, got[0], got[1])
		}
	}
	holder := l.Dial(t)
	if reply := holder.Reply(t, "LOCK.ACQUIRE", "lock"); reply[0] != ':' {
		t.Fatal(reply)
	}
	if got := halfClosed(t, l.Addr, "LOCK.ACQUIRE lock BLOCK 0"); got != "" {
		t.Errorf("a waiter was answered %q", got)
	}
}

// halfClosed sends commands, waits until the last one blocks, closes the sending side, and returns
// everything that it receives.
func halfClosed(t *testing.T, addr, commands string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var raw strings.Builder
	for command := range strings.SplitSeq(commands, "; ") {
		raw.WriteString(redistest.Command(strings.Fields(command)...))
	}
	if _, err := io.WriteString(conn, raw.String()); err != nil {
		t.Fatal(err)
	}
	// usually the command is blocked already; an earlier close is fine too
	time.Sleep(50 * time.Millisecond)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("%s: after %q: %v", commands, all, err)
	}
	return string(all)
}
