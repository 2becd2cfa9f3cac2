package locks_test

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/subscribers"
)

// notified opens a connection with LOCK.NOTIFY on.
func notified(t *testing.T, l *proxytest.Leash) *redistest.Client {
	t.Helper()
	c := l.Dial(t)
	c.Reply(t, "HELLO", "3")
	c.Want(t, "+OK\r\n", "LOCK.NOTIFY", "ON")
	return c
}

func notice(word, key, token string) string {
	return fmt.Sprintf(">4\r\n$4\r\nlock\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:%s\r\n", len(word), word, len(key), key, token)
}

// wanting sends LOCK.ACQUIRE and returns when the client waits for the lock.
func wanting(t *testing.T, l *proxytest.Leash, key string) *redistest.Client {
	t.Helper()
	c, before := l.Dial(t), l.Locks.Stats().Waiters
	if err := c.Send(redistest.Command("LOCK.ACQUIRE", key, "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it waits", func() bool { return l.Locks.Stats().Waiters > before })
	return c
}

func TestNotifyPushes(t *testing.T) {
	t.Parallel()
	proxytest.BothUpstreams(t, func(t *testing.T, l *proxytest.Leash, _ []*redistest.Server) {
		c := notified(t, l)
		first := proxytest.Token(t, c, "k")
		waiter := wanting(t, l, "k")
		proxytest.WantRead(t, c, notice("wanted", "k", first))
		c.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
		if _, err := waiter.Read(); err != nil {
			t.Fatal(err)
		}
		waiter.Close()

		// A new holder is told behind its reply that others wait for the lock.
		holder := l.Dial(t)
		proxytest.Token(t, holder, "k", "BLOCK", "0")
		if err := c.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0") + redistest.Command("PING")); err != nil {
			t.Fatal(err)
		}
		proxytest.Eventually(t, "it waits", func() bool { return l.Locks.Stats().Waiters == 1 })
		wanting(t, l, "k")
		holder.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
		reply, err := c.Read()
		if err != nil || reply[0] != ':' {
			t.Fatalf("%q %v", reply, err)
		}
		second := strings.TrimSpace(reply[1:])
		proxytest.WantRead(t, c, notice("wanted", "k", second))
		proxytest.WantRead(t, c, "+PONG\r\n")

		// A connection is told of a loss before it is closed.
		breakLock(t, l.Dial(t), "k")
		proxytest.WantRead(t, c, notice("lost", "k", second))
		if got, err := c.Read(); !errors.Is(err, io.EOF) {
			t.Fatalf("%q %v, want the end", got, err)
		}
	})
}

// TestNotifyWhileWaiting checks that a client that waits for one lock is told about another.
func TestNotifyWhileWaiting(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	holder, c := l.Dial(t), notified(t, l)
	proxytest.Token(t, holder, "other")
	own := proxytest.Token(t, c, "own", "ONLOSS", "ERROR")
	if err := c.Send(redistest.Command("LOCK.ACQUIRE", "other", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it waits", func() bool { return l.Locks.Stats().Waiters == 1 })
	breakLock(t, l.Dial(t), "own")
	proxytest.WantRead(t, c, notice("lost", "own", own))
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "other")
	if got, err := c.Read(); err != nil || got[0] != ':' {
		t.Fatalf("%q %v", got, err)
	}
}

// TestNotifyEnds checks that LOCK.NOTIFY ends with RESP2, with RESET and with LOCK.NOTIFY OFF.
func TestNotifyEnds(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	c := l.Dial(t)
	if got := c.Reply(t, "LOCK.NOTIFY", "ON"); !strings.HasPrefix(got, "-ERR ") {
		t.Fatalf("in RESP2: %q", got)
	}
	c.Want(t, "+OK\r\n", "MULTI")
	c.Want(t, "-ERR 'LOCK.NOTIFY' is not allowed inside MULTI: a lock is not part of a transaction\r\n",
		"LOCK.NOTIFY", "ON")
	c.Want(t, "+OK\r\n", "DISCARD")
	for i, end := range [][]string{{"HELLO", "2"}, {"RESET"}, {"LOCK.NOTIFY", "OFF"}} {
		c.Reply(t, "HELLO", "3")
		c.Want(t, "+OK\r\n", "LOCK.NOTIFY", "ON")
		c.Reply(t, end...)
		c.Reply(t, "HELLO", "3")
		key := "k" + strconv.Itoa(i)
		proxytest.Token(t, c, key, "ONLOSS", "ERROR")
		waiter := wanting(t, l, key)
		breakLock(t, l.Dial(t), key)
		if got, err := waiter.Read(); err != nil || got[0] != ':' {
			t.Fatalf("%q %v", got, err)
		}
		c.Want(t, "+PONG\r\n", "PING")
		c.Want(t, "-LOCKLOST "+key+" broken\r\n", "LOCK.TTL", key)
	}
}

// TestNotifyPushesNeverSplitReplies checks that pushes never arrive within a large reply to a slow
// reader.
func TestNotifyPushesNeverSplitReplies(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	c, other := notified(t, l), l.Dial(t)
	big := strings.Repeat("0123456789", 400_000)
	other.Reply(t, "SET", "big", big)
	const locks = 20
	tokens := make(map[string]bool)
	for i := range locks {
		key := "k" + strconv.Itoa(i)
		tokens[notice("lost", key, proxytest.Token(t, c, key, "ONLOSS", "ERROR"))] = true
		if err := c.Send(strings.Repeat(redistest.Command("GET", "big"), 2)); err != nil {
			t.Fatal(err)
		}
		replies := 2
		breakLock(t, other, key)
		for told := false; replies > 0 || !told; {
			switch got, err := c.Read(); {
			case err != nil:
				t.Fatal(err)
			case tokens[got]:
				told = true
			case got == fmt.Sprintf("$%d\r\n%s\r\n", len(big), big):
				replies--
			default:
				t.Fatalf("got %.100q", got)
			}
		}
	}
}

// TestNotifyPushesAreBounded checks that a client that does not read its pushes is closed.
func TestNotifyPushesAreBounded(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	// a busy machine must not lose any of them before
	l := proxytest.Start(t, []string{redis.Addr}, proxytest.Watchdog(30*time.Second),
		proxytest.LimitSubscribers(subscribers.Limits{Hard: 1 << 20, Soft: 1 << 30, Over: time.Minute}))
	c, other := notified(t, l), l.Dial(t)
	for i := range 400 {
		proxytest.Token(t, c, strings.Repeat("k", 50_000)+strconv.Itoa(i), "ONLOSS", "ERROR")
	}
	other.Want(t, "+OK\r\n", "FLUSHALL")
	proxytest.Eventually(t, "it is closed", func() bool {
		return strings.Contains(other.Reply(t, "INFO", "leash"), "leash_holds:0\r\n") &&
			strings.Contains(l.Logs.String(), "does not read its messages")
	})
}

// TestNotifyDraining checks that clients with LOCK.NOTIFY are told that Leash stops, and no others.
func TestNotifyDraining(t *testing.T) {
	t.Parallel()
	l := proxytest.Start(t, []string{redistest.Start(t).Addr}, func(o *proxytest.Options) {
		o.Front.DrainTimeout = time.Minute
	})
	holder, idle, other, waiting := notified(t, l), notified(t, l), l.Dial(t), notified(t, l)
	first := proxytest.Token(t, holder, "k")
	proxytest.Token(t, other, "other")
	if err := waiting.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	proxytest.WantRead(t, holder, notice("wanted", "k", first))
	stopped := make(chan struct{})
	go func() { l.Stop(); close(stopped) }()
	push := notice("draining", "", "60000")
	proxytest.WantRead(t, idle, push)
	if err := idle.AwaitEnd(); err != nil {
		t.Errorf("the idle client: %v", err)
	}
	proxytest.WantRead(t, waiting, "-ERR this Leash is shutting down and grants no locks\r\n")
	proxytest.WantRead(t, waiting, push)
	proxytest.WantRead(t, holder, push)
	holder.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
	other.Want(t, ":1\r\n", "LOCK.RELEASE", "other") // it got no push
	<-stopped
}
