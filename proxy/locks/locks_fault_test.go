package locks_test

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/call"
)

// TestPausedRedis checks that the holder's connection is closed before another owner gets the lock,
// when Redis is away for longer than the TTL (R25, R27).
func TestPausedRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := proxytest.Start(t, []string{redis.Addr}, proxytest.Watchdog(5*time.Second))
	other := proxytest.Start(t, []string{redis.Addr}, proxytest.Watchdog(5*time.Second))
	holder, waiter := l.Dial(t), other.Dial(t)
	proxytest.Token(t, holder, "k")
	waiter.Timeout = 30 * time.Second
	if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	proxytest.Eventually(t, "it waits", func() bool { return other.Locks.Stats().Waiters == 1 })
	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	var told atomic.Int64
	go func() {
		holder.Timeout = 30 * time.Second
		if _, err := holder.Read(); errors.Is(err, io.EOF) {
			told.Store(time.Now().UnixNano())
		}
	}()
	proxytest.Eventually(t, "the holder is told while Redis is still away", func() bool { return told.Load() != 0 })
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
	got, err := waiter.Read()
	if err != nil || got[0] != ':' {
		t.Fatalf("waiter got %q %v", got, err)
	}
	if !strings.Contains(l.Logs.String(), "lock lost") {
		t.Error("the loss was not logged")
	}
}

// TestScriptReplyLost checks that a lock script whose reply is lost runs once and gives the right
// answer (R7).
func TestScriptReplyLost(t *testing.T) {
	redis, fault := proxytest.Faulty(t)
	l := proxytest.Start(t, []string{fault.Addr()})
	client := l.Dial(t)
	client.Timeout = 20 * time.Second
	proxytest.Token(t, client, "warm") // the scripts are loaded
	client.Want(t, ":1\r\n", "LOCK.RELEASE", "warm")

	drop := func() *faultproxy.Fault {
		return fault.DropAfter(faultproxy.All(faultproxy.Named("EVALSHA", "EVAL"), faultproxy.Holding("k")))
	}
	f := drop()
	first := proxytest.Token(t, client, "k")
	if f.Count() != 1 {
		t.Fatalf("the fault occurred %d times", f.Count())
	}
	if n := redis.Client().HLen(t.Context(), "k").Val(); n != 2 {
		t.Errorf("the lock has %d fields, want owner and record", n)
	}
	info := client.Reply(t, "LOCK.INFO", "k")
	if !strings.Contains(info, first) || !strings.Contains(info, "holds\r\n:1\r\n") {
		t.Errorf("LOCK.INFO: %q", info)
	}
	f = drop()
	client.Want(t, ":1\r\n", "LOCK.RELEASE", "k")
	if f.Count() != 1 {
		t.Fatalf("the fault occurred %d times", f.Count())
	}
	if n := redis.Client().Exists(t.Context(), "k").Val(); n != 0 {
		t.Error("the lock is still there")
	}
}

// TestRelayedCommandReplyLost checks that an ordinary command whose reply is lost is not sent
// again.
func TestRelayedCommandReplyLost(t *testing.T) {
	_, fault := proxytest.Faulty(t)
	l := proxytest.Start(t, []string{fault.Addr()})
	client := l.Dial(t)
	client.Want(t, ":1\r\n", "INCR", "n")
	fault.DropAfter(faultproxy.Named("INCR"))
	if err := client.Send(redistest.Command("INCR", "n") + redistest.Command("PING")); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Read(); got != "-"+call.ErrorLost+"\r\n" {
		t.Fatalf("got %q %v", got, err)
	}
	if got, err := client.Read(); got != "+PONG\r\n" {
		t.Fatalf("got %q %v", got, err)
	}
	client.Want(t, "$1\r\n2\r\n", "GET", "n")
}
