package proxy

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
)

// TestLocksOfSubscriber checks that lock commands are refused in RESP2's subscribe mode, like
// others, and that holds are kept. In RESP3 they work.
func TestLocksOfSubscriber(t *testing.T) {
	t.Parallel()
	bothUpstreams(t, func(t *testing.T, l *leash, _ []*redistest.Server) {
		c, other := l.dial(t), l.dial(t)
		token(t, c, "k")
		want(t, c, "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n", "SUBSCRIBE", "ch")
		for _, args := range [][]string{{"LOCK.ACQUIRE", "k2"}, {"LOCK.RELEASE", "k"}, {"LOCK.TTL", "k"},
			{"SEM.TAKE", "s"}, {"LATCH.AWAIT", "l", "BLOCK", "0"}} {
			if got, want := do(t, c, args...), "-ERR Can't execute '"+strings.ToLower(args[0])+
				"': only (P|S)SUBSCRIBE"; !strings.HasPrefix(got, want) {
				t.Errorf("%v: got %q, want %q", args, got, want)
			}
		}
		want(t, other, "$-1\r\n", "LOCK.ACQUIRE", "k")
		want(t, c, "*3\r\n$11\r\nunsubscribe\r\n$2\r\nch\r\n:0\r\n", "UNSUBSCRIBE", "ch")
		want(t, c, ":1\r\n", "LOCK.RELEASE", "k")
		do(t, c, "HELLO", "3")
		want(t, c, ">3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n", "SUBSCRIBE", "ch")
		token(t, c, "k")
		want(t, c, ":1\r\n", "LOCK.RELEASE", "k")
	})
}

// TestLocksOfAnotherUser checks that a connection keeps its holds after AUTH, and that new locks
// need the new user's rights.
func TestLocksOfAnotherUser(t *testing.T) {
	redis := aclServer(t)
	l := startLeash(t, []string{redis.Addr})
	c, other := l.dial(t), l.dial(t)
	token(t, c, "k")
	want(t, c, "+OK\r\n", "AUTH", "few", "pw")
	if left, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(do(t, c, "LOCK.TTL", "k"),
		":"))); err != nil || left <= 0 {
		t.Errorf("the lock is held for %d ms more, %v", left, err)
	}
	want(t, other, "$-1\r\n", "LOCK.ACQUIRE", "k")
	if got := do(t, c, "LOCK.ACQUIRE", "k2"); !strings.HasPrefix(got, "-NOPERM ") {
		t.Errorf("the new user got %q", got)
	}
	c.Close()
	eventually(t, "it is released with the connection", func() bool {
		return do(t, other, "LOCK.ACQUIRE", "k")[0] == ':'
	})
}

// TestLocksInMonitor checks that a connection in MONITOR keeps its holds until it ends.
func TestLocksInMonitor(t *testing.T) {
	redis := redistest.Start(t)
	l := startLeash(t, []string{redis.Addr})
	c, other := l.dial(t), l.dial(t)
	token(t, c, "k")
	want(t, c, "+OK\r\n", "MONITOR")
	want(t, other, "$-1\r\n", "LOCK.ACQUIRE", "k")
	want(t, other, "+OK\r\n", "SET", "seen", "1")
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
	eventually(t, "it is released with the connection", func() bool {
		return do(t, other, "LOCK.ACQUIRE", "k")[0] == ':'
	})
}

// TestR28LocksOfSlowReaderRunOut checks that the locks of a client that reads no replies run out
// after Leash has closed it, because it may still be at work (R28).
func TestR28LocksOfSlowReaderRunOut(t *testing.T) {
	t.Parallel() // it takes the stall time-out and nothing else
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	l := startLeash(t, []string{redis.Addr}, watchdog(10*time.Minute), func(o *options) {
		o.front.MaxClientOutput = 16 << 20
	})
	c, other := l.dial(t), l.dial(t)
	want(t, other, ":31457280\r\n", "SETRANGE", "big", strconv.Itoa(30<<20-1), "x")
	token(t, c, "k")
	if err := c.Send(redistest.Command("GET", "big")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client is closed", func() bool { return l.clients() == 1 })
	eventually(t, "it was closed because of its output", func() bool {
		return l.Figures().Disconnections["output_limit"] == 1
	})
	want(t, other, "$-1\r\n", "LOCK.ACQUIRE", "k")
	if left := redis.Client().PTTL(t.Context(), "k").Val(); left <= 0 {
		t.Errorf("the lock runs out in %v", left)
	}
}
