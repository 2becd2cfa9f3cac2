package pubsub_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/subscribers"
)

// listening opens a connection that is subscribed to a channel.
func listening(t *testing.T, l *proxytest.Leash, proto, channel string) *redistest.Client {
	t.Helper()
	c := l.Dial(t)
	if got := c.Reply(t, "HELLO", proto); got[0] == '-' {
		t.Fatal(got)
	}
	c.Want(t, confirmation(proto, "subscribe", channel, 1), "SUBSCRIBE", channel)
	return c
}

func confirmation(proto, word, channel string, count int) string {
	return fmt.Sprintf("%s3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:%d\r\n", mark(proto), len(word), word, len(channel),
		channel, count)
}

func message(proto, channel, payload string) string {
	return fmt.Sprintf("%s3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", mark(proto), len(channel), channel,
		len(payload), payload)
}

func mark(proto string) string {
	if proto == "3" {
		return ">"
	}
	return "*"
}

func TestMessagesInBothProtocols(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l, past := proxytest.Start(t, []string{redis.Addr}), proxytest.Dial(t, redis.Addr)
	var all []*redistest.Client
	for i := range 500 {
		all = append(all, listening(t, l, []string{"2", "3"}[i%2], "news"))
	}
	for _, payload := range []string{"", "x", "\r\n\x00$-1", strings.Repeat("long", 1<<14)} {
		past.Want(t, ":1\r\n", "PUBLISH", "news", payload)
		for i, c := range all {
			proxytest.WantRead(t, c, message([]string{"2", "3"}[i%2], "news", payload))
		}
	}
	stats := l.Exchange.Stats()
	// and the wake-ups of locks
	if stats.Listeners != 500 || stats.Subscriptions != 2 || stats.Connections != 1 {
		t.Errorf("got %+v", stats)
	}
	info := all[1].Reply(t, "INFO", "leash")
	for _, line := range []string{"leash_subscribers:500", "leash_upstream_subscriptions:2",
		"leash_subscriber_connections:1"} {
		if !strings.Contains(info, line+"\r\n") {
			t.Errorf("INFO lacks %s", line)
		}
	}
	for _, c := range all {
		c.Close()
	}
	proxytest.Eventually(t, "they are gone", func() bool { return l.Exchange.Stats().Listeners == 0 })
	proxytest.Eventually(t, "and not counted", func() bool {
		return past.Reply(t, "PUBSUB", "NUMSUB", "news") == "*2\r\n$4\r\nnews\r\n:0\r\n"
	})
}

// TestPushesNeverSplitReplies reads large and small replies, pipelined, while many messages
// arrive.
func TestPushesNeverSplitReplies(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l, past := proxytest.Start(t, []string{redis.Addr}), proxytest.Dial(t, redis.Addr)
	big := strings.Repeat("0123456789", 60_000)
	past.Reply(t, "SET", "big", big)
	past.Reply(t, "RPUSH", "list", "a", "b", "c", big)
	c := listening(t, l, "3", "news")
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_, _ = past.Do("PUBLISH", "news", fmt.Sprint(i))
			}
		}
	})
	const rounds = 60
	sent := make(chan error, 1)
	go func() {
		pipeline := redistest.Command("GET", "big") + redistest.Command("PING") +
			redistest.Command("LRANGE", "list", "0", "-1") + redistest.Command("ECHO", "x")
		var err error
		for range rounds {
			if err == nil {
				err = c.Send(pipeline)
			}
		}
		sent <- err
	}()
	replies := []string{
		fmt.Sprintf("$%d\r\n%s\r\n", len(big), big), "+PONG\r\n",
		fmt.Sprintf("*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$%d\r\n%s\r\n", len(big), big), "$1\r\nx\r\n",
	}
	heard := 0
	for i := 0; i < 4*rounds; {
		frame, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		if frame[0] == '>' {
			if frame != message("3", "news", fmt.Sprint(heard)) {
				t.Fatalf("message %d is %q", heard, frame)
			}
			heard++
			continue
		}
		if frame != replies[i%4] {
			t.Fatalf("reply %d is %.80q", i, frame)
		}
		i++
	}
	close(stop)
	publishing.Wait()
	if err := <-sent; err != nil || heard == 0 {
		t.Errorf("%v, %d messages", err, heard)
	}
}

// TestMessagesFollowTheirConfirmation subscribes and unsubscribes while many messages arrive.
func TestMessagesFollowTheirConfirmation(t *testing.T) {
	redis := redistest.Start(t)
	l, past := proxytest.Start(t, []string{redis.Addr}), proxytest.Dial(t, redis.Addr)
	keep := listening(t, l, "2", "b") // so that messages are under way at any time
	go func() {
		for {
			if _, err := keep.Read(); err != nil {
				return
			}
		}
	}()
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = past.Do("PUBLISH", "b", "m")
			}
		}
	})
	for _, proto := range []string{"2", "3"} {
		c := listening(t, l, proto, "a")
		for range 200 {
			if err := c.Send(redistest.Command("SUBSCRIBE", "b")); err != nil {
				t.Fatal(err)
			}
			proxytest.WantRead(t, c, confirmation(proto, "subscribe", "b", 2))
			proxytest.WantRead(t, c, message(proto, "b", "m"))
			if err := c.Send(redistest.Command("UNSUBSCRIBE", "b")); err != nil {
				t.Fatal(err)
			}
			for {
				frame, err := c.Read()
				if err != nil {
					t.Fatal(err)
				}
				if frame == confirmation(proto, "unsubscribe", "b", 1) {
					break
				}
				if frame != message(proto, "b", "m") {
					t.Fatalf("got %q", frame)
				}
			}
		}
	}
	close(stop)
	publishing.Wait()
}

func TestSlowSubscriberIsDisconnected(t *testing.T) {
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr},
		proxytest.LimitSubscribers(subscribers.Limits{Hard: 8 << 20, Soft: 1 << 20, Over: time.Minute}))
	past := proxytest.Dial(t, redis.Addr)
	slow, quick := listening(t, l, "2", "news"), listening(t, l, "3", "news")
	payload := strings.Repeat("x", 1<<20)
	for range 40 {
		past.Reply(t, "PUBLISH", "news", payload)
		began := time.Now()
		proxytest.WantRead(t, quick, message("3", "news", payload))
		if took := time.Since(began); took > 20*time.Second {
			t.Fatalf("another waited %v", took)
		}
	}
	proxytest.Eventually(t, "it is closed", func() bool { return l.Figures().Disconnections["output_limit_of_subscribers"] == 1 })
	if !strings.Contains(l.Logs.String(), "subscriber does not read its messages") {
		t.Error("nothing was logged")
	}
	for range 40 {
		if _, err := slow.Read(); err != nil {
			past.Want(t, ":1\r\n", "PUBLISH", "news", "y")
			proxytest.WantRead(t, quick, message("3", "news", "y"))
			return
		}
	}
	t.Error("it is still served")
}

func TestLaggingSubscriberIsDisconnected(t *testing.T) {
	t.Parallel() // it waits most of the time
	redistest.TakesLong(t)
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr},
		proxytest.LimitSubscribers(subscribers.Limits{Hard: 64 << 20, Soft: 1 << 20, Over: 6 * time.Second}))
	past := proxytest.Dial(t, redis.Addr)
	listening(t, l, "2", "news")
	reads := listening(t, l, "2", "news")
	payload := strings.Repeat("x", 1<<20)
	for range 12 {
		past.Reply(t, "PUBLISH", "news", payload)
		proxytest.WantRead(t, reads, message("2", "news", payload))
	}
	if l.Figures().Disconnections["output_limit_of_subscribers"] != 0 {
		t.Error("it was closed at once")
	}
	proxytest.Eventually(t, "it is closed", func() bool { return l.Figures().Disconnections["output_limit_of_subscribers"] == 1 })
	past.Reply(t, "PUBLISH", "news", "y")
	proxytest.WantRead(t, reads, message("2", "news", "y"))
}

func TestSubscriptionsSurviveTheirUser(t *testing.T) {
	redis := redistest.Start(t)
	l, past := proxytest.Start(t, []string{redis.Addr}), proxytest.Dial(t, redis.Addr)
	past.Want(t, "+OK\r\n", "ACL", "SETUSER", "bob", "on", ">pw", "~*", "+@all", "resetchannels", "&b*")
	c := listening(t, l, "3", "a")
	c.Want(t, "+OK\r\n", "AUTH", "bob", "pw")
	c.Want(t, confirmation("3", "subscribe", "b", 2), "SUBSCRIBE", "b")
	const denied = "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n"
	c.Want(t, denied, "SUBSCRIBE", "a")
	c.Want(t, denied, "PSUBSCRIBE", "b*", "*")
	c.Want(t, denied, "PUBLISH", "a", "m")
	for _, channel := range []string{"a", "b"} {
		past.Want(t, ":1\r\n", "PUBLISH", channel, "m")
		proxytest.WantRead(t, c, message("3", channel, "m"))
	}
	past.Want(t, "+OK\r\n", "ACL", "SETUSER", "bob", "resetchannels")
	if err := c.AwaitEnd(); err != nil {
		t.Error(err)
	}
}
