package proxy

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/subscribers"
)

// notified opens a connection with LOCK.NOTIFY on.
func notified(t *testing.T, l *leash) *redistest.Client {
	t.Helper()
	c := l.dial(t)
	do(t, c, "HELLO", "3")
	want(t, c, "+OK\r\n", "LOCK.NOTIFY", "ON")
	return c
}

func notice(word, key, token string) string {
	return fmt.Sprintf(">4\r\n$4\r\nlock\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:%s\r\n", len(word), word, len(key), key, token)
}

// wanting sends LOCK.ACQUIRE and returns when the client waits for the lock.
func wanting(t *testing.T, l *leash, key string) *redistest.Client {
	t.Helper()
	c, before := l.dial(t), l.locks.Stats().Waiters
	if err := c.Send(redistest.Command("LOCK.ACQUIRE", key, "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits", func() bool { return l.locks.Stats().Waiters > before })
	return c
}

func TestNotifyPushes(t *testing.T) {
	t.Parallel()
	bothUpstreams(t, func(t *testing.T, l *leash, _ []*redistest.Server) {
		c := notified(t, l)
		first := token(t, c, "k")
		waiter := wanting(t, l, "k")
		wantRead(t, c, notice("wanted", "k", first))
		want(t, c, ":1\r\n", "LOCK.RELEASE", "k")
		if _, err := waiter.Read(); err != nil {
			t.Fatal(err)
		}
		waiter.Close()

		// A new holder is told behind its reply that others wait for the lock.
		holder := l.dial(t)
		token(t, holder, "k", "BLOCK", "0")
		if err := c.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0") + redistest.Command("PING")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits", func() bool { return l.locks.Stats().Waiters == 1 })
		wanting(t, l, "k")
		want(t, holder, ":1\r\n", "LOCK.RELEASE", "k")
		reply, err := c.Read()
		if err != nil || reply[0] != ':' {
			t.Fatalf("%q %v", reply, err)
		}
		second := strings.TrimSpace(reply[1:])
		wantRead(t, c, notice("wanted", "k", second))
		wantRead(t, c, "+PONG\r\n")

		// A connection is told of a loss before it is closed.
		breakLock(t, l.dial(t), "k")
		wantRead(t, c, notice("lost", "k", second))
		if got, err := c.Read(); !errors.Is(err, io.EOF) {
			t.Fatalf("%q %v, want the end", got, err)
		}
	})
}

// TestNotifyWhileWaiting checks that a client that waits for one lock is told about another.
func TestNotifyWhileWaiting(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	holder, c := l.dial(t), notified(t, l)
	token(t, holder, "other")
	own := token(t, c, "own", "ONLOSS", "ERROR")
	if err := c.Send(redistest.Command("LOCK.ACQUIRE", "other", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits", func() bool { return l.locks.Stats().Waiters == 1 })
	breakLock(t, l.dial(t), "own")
	wantRead(t, c, notice("lost", "own", own))
	want(t, holder, ":1\r\n", "LOCK.RELEASE", "other")
	if got, err := c.Read(); err != nil || got[0] != ':' {
		t.Fatalf("%q %v", got, err)
	}
}

// TestNotifyEnds checks that LOCK.NOTIFY ends with RESP2, with RESET and with LOCK.NOTIFY OFF.
func TestNotifyEnds(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	c := l.dial(t)
	if got := do(t, c, "LOCK.NOTIFY", "ON"); !strings.HasPrefix(got, "-ERR ") {
		t.Fatalf("in RESP2: %q", got)
	}
	want(t, c, "+OK\r\n", "MULTI")
	want(t, c, "-ERR 'LOCK.NOTIFY' is not allowed inside MULTI: a lock is not part of a transaction\r\n",
		"LOCK.NOTIFY", "ON")
	want(t, c, "+OK\r\n", "DISCARD")
	for i, end := range [][]string{{"HELLO", "2"}, {"RESET"}, {"LOCK.NOTIFY", "OFF"}} {
		do(t, c, "HELLO", "3")
		want(t, c, "+OK\r\n", "LOCK.NOTIFY", "ON")
		do(t, c, end...)
		do(t, c, "HELLO", "3")
		key := "k" + strconv.Itoa(i)
		token(t, c, key, "ONLOSS", "ERROR")
		waiter := wanting(t, l, key)
		breakLock(t, l.dial(t), key)
		if got, err := waiter.Read(); err != nil || got[0] != ':' {
			t.Fatalf("%q %v", got, err)
		}
		want(t, c, "+PONG\r\n", "PING")
		want(t, c, "-LOCKLOST "+key+" broken\r\n", "LOCK.TTL", key)
	}
}

// TestNotifyPushesNeverSplitReplies checks that pushes never arrive within a large reply to a slow
// reader.
func TestNotifyPushesNeverSplitReplies(t *testing.T) {
	t.Parallel()
	l := startLeash(t, []string{redistest.Start(t).Addr})
	c, other := notified(t, l), l.dial(t)
	big := strings.Repeat("0123456789", 400_000)
	do(t, other, "SET", "big", big)
	const locks = 20
	tokens := make(map[string]bool)
	for i := range locks {
		key := "k" + strconv.Itoa(i)
		tokens[notice("lost", key, token(t, c, key, "ONLOSS", "ERROR"))] = true
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
	l := startLeash(t, []string{redis.Addr}, watchdog(30*time.Second),
		limitSubscribers(subscribers.Limits{Hard: 1 << 20, Soft: 1 << 30, Over: time.Minute}))
	c, other := notified(t, l), l.dial(t)
	for i := range 400 {
		token(t, c, strings.Repeat("k", 50_000)+strconv.Itoa(i), "ONLOSS", "ERROR")
	}
	want(t, other, "+OK\r\n", "FLUSHALL")
	eventually(t, "it is closed", func() bool {
		return strings.Contains(do(t, other, "INFO", "leash"), "leash_holds:0\r\n") &&
			strings.Contains(l.logs.String(), "does not read its messages")
	})
}

// TestNotifyDraining checks that clients with LOCK.NOTIFY are told that Leash stops, and no others.
func TestNotifyDraining(t *testing.T) {
	t.Parallel()
	l := startLeash(t, []string{redistest.Start(t).Addr}, func(o *options) { o.front.DrainTimeout = time.Minute })
	holder, idle, other, waiting := notified(t, l), notified(t, l), l.dial(t), notified(t, l)
	first := token(t, holder, "k")
	token(t, other, "other")
	if err := waiting.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	wantRead(t, holder, notice("wanted", "k", first))
	stopped := make(chan struct{})
	go func() { l.stop(); close(stopped) }()
	push := notice("draining", "", "60000")
	wantRead(t, idle, push)
	if err := idle.AwaitEnd(); err != nil {
		t.Errorf("the idle client: %v", err)
	}
	wantRead(t, waiting, "-ERR this Leash is shutting down and grants no locks\r\n")
	wantRead(t, waiting, push)
	wantRead(t, holder, push)
	want(t, holder, ":1\r\n", "LOCK.RELEASE", "k")
	want(t, other, ":1\r\n", "LOCK.RELEASE", "other") // it got no push
	<-stopped
}
