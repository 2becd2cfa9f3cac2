package locks_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
)

// TestLocksOfSubscriber checks that lock commands are refused in RESP2's subscribe mode, like
// others, and that holds are kept. In RESP3 they work.
func TestLocksOfSubscriber(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, _ []*redistest.Server) {
		c, other := l.Dial(t), l.Dial(t)
		proxytest.Token(t, c, "k")
		c.Want(t, "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n", "SUBSCRIBE", "ch")
		for _, args := range [][]string{{"LOCK.ACQUIRE", "k2"}, {"LOCK.RELEASE", "k"}, {"LOCK.TTL", "k"},
			{"SEM.TAKE", "s"}, {"LATCH.AWAIT", "l", "BLOCK", "0"}} {
			if got, want := c.Reply(t, args...), "-ERR Can't execute '"+strings.ToLower(args[0])+
				"': only (P|S)SUBSCRIBE"; !strings.HasPrefix(got, want) {
				t.Errorf("%v: got %q, want %q", args, got, want)
			}
		}
		other.Want(t, "$-1\r\n", "LOCK.ACQUIRE", "k")
		c.Want(t, "*3\r\n$11\r\nunsubscribe\r\n$2\r\nch\r\n:0\r\n", "UNSUBSCRIBE", "ch")
		c.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
		c.Reply(t, "HELLO", "3")
		c.Want(t, ">3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n", "SUBSCRIBE", "ch")
		proxytest.Token(t, c, "k")
		c.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
	})
}

// TestLocksOfAnotherUser checks that a connection keeps its holds after AUTH, and that new locks
// need the new user's rights.
func TestLocksOfAnotherUser(t *testing.T) {
	redis := proxytest.ACLServer(t)
	l := proxytest.Start(t, []string{redis.Addr})
	c, other := l.Dial(t), l.Dial(t)
	proxytest.Token(t, c, "k")
	c.Want(t, "+OK\r\n", "AUTH", "few", "pw")
	if left, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(c.Reply(t, "LOCK.TTL", "k"),
		":"))); err != nil || left <= 0 {
		t.Errorf("the lock is held for %d ms more, %v", left, err)
	}
	other.Want(t, "$-1\r\n", "LOCK.ACQUIRE", "k")
	if got := c.Reply(t, "LOCK.ACQUIRE", "k2"); !strings.HasPrefix(got, "-NOPERM ") {
		t.Errorf("the new user got %q", got)
	}
	c.Close()
	proxytest.Eventually(t, "it is released with the connection", func() bool {
		return other.Reply(t, "LOCK.ACQUIRE", "k")[0] == ':'
	})
}

// TestLocksInMonitor checks that a connection in MONITOR keeps its holds until it ends.
func TestLocksInMonitor(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr})
	c, other := l.Dial(t), l.Dial(t)
	proxytest.Token(t, c, "k")
	c.Want(t, "+OK\r\n", "MONITOR")
	other.Want(t, "$-1\r\n", "LOCK.ACQUIRE", "k")
	other.Want(t, "+OK\r\n", "SET", "seen", "1")
	for {
		line, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"SET" "seen" "1"`) {
			break
		}
	}
	// unread bytes would turn the close into a reset
	if err := c.Send(redistest.Command("QUIT")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it is released with the connection", func() bool {
		return other.Reply(t, "LOCK.ACQUIRE", "k")[0] == ':'
	})
}

// TestR28LocksOfSlowReaderRunOut checks that the locks of a client that reads no replies run out
// after Leash has closed it, because it may still be at work (R28).
func TestR28LocksOfSlowReaderRunOut(t *testing.T) {
	t.Parallel() // it takes the stall time-out and nothing else
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, proxytest.Watchdog(10*time.Minute), func(o *proxytest.Options) {
		o.Front.MaxClientOutput = 16 << 20
	})
	c, other := l.Dial(t), l.Dial(t)
	other.Want(t, ":31457280\r\n", "SETRANGE", "big", strconv.Itoa(30<<20-1), "x")
	proxytest.Token(t, c, "k")
	if err := c.Send(redistest.Command("GET", "big")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "the client is closed", func() bool { return l.Clients() == 1 })
	proxytest.Eventually(t, "it was closed because of its output", func() bool {
		return l.Figures().Disconnections["output_limit"] == 1
	})
	other.Want(t, "$-1\r\n", "LOCK.ACQUIRE", "k")
	if left := redis.Client().PTTL(t.Context(), "k").Val(); left <= 0 {
		t.Errorf("the lock runs out in %v", left)
	}
}
