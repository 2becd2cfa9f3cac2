package proxy

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
	"leash/proxy/call"
)

// TestPausedRedis checks that the holder's connection is closed before another owner gets the lock,
// when Redis is away for longer than the TTL (R25, R27).
func TestPausedRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	l := startLeash(t, []string{redis.Addr}, watchdog(5*time.Second))
	other := startLeash(t, []string{redis.Addr}, watchdog(5*time.Second))
	holder, waiter := l.dial(t), other.dial(t)
	token(t, holder, "k")
	waiter.Timeout = 30 * time.Second
	if err := waiter.Send(redistest.Command("LOCK.ACQUIRE", "k", "BLOCK", "0")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits", func() bool { return other.locks.Stats().Waiters == 1 })
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
	eventually(t, "the holder is told while Redis is still away", func() bool { return told.Load() != 0 })
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
	got, err := waiter.Read()
	if err != nil || got[0] != ':' {
		t.Fatalf("waiter got %q %v", got, err)
	}
	if !strings.Contains(l.logs.String(), "lock lost") {
		t.Error("the loss was not logged")
	}
}

// faulty starts a Redis and a proxy in front of it that can drop replies.
func faulty(t *testing.T) (*redistest.Server, *faultproxy.Proxy) {
	t.Helper()
	redis := redistest.Start(t)
	fault, err := faultproxy.New(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fault.Close() })
	return redis, fault
}

// TestScriptReplyLost checks that a lock script whose reply is lost runs once and gives the right
// answer (R7).
func TestScriptReplyLost(t *testing.T) {
	redis, fault := faulty(t)
	l := startLeash(t, []string{fault.Addr()})
	client := l.dial(t)
	client.Timeout = 20 * time.Second
	token(t, client, "warm") // the scripts are loaded
	want(t, client, ":1\r\n", "LOCK.RELEASE", "warm")

	drop := func() *faultproxy.Fault {
		return fault.DropAfter(faultproxy.All(faultproxy.Named("EVALSHA", "EVAL"), faultproxy.Holding("k")))
	}
	f := drop()
	first := token(t, client, "k")
	if f.Count() != 1 {
		t.Fatalf("the fault occurred %d times", f.Count())
	}
	if n := redis.Client().HLen(t.Context(), "k").Val(); n != 2 {
		t.Errorf("the lock has %d fields, want owner and record", n)
	}
	info := do(t, client, "LOCK.INFO", "k")
	if !strings.Contains(info, first) || !strings.Contains(info, "holds\r\n:1\r\n") {
		t.Errorf("LOCK.INFO: %q", info)
	}
	f = drop()
	want(t, client, ":1\r\n", "LOCK.RELEASE", "k")
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
	_, fault := faulty(t)
	l := startLeash(t, []string{fault.Addr()})
	client := l.dial(t)
	want(t, client, ":1\r\n", "INCR", "n")
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
	want(t, client, "$1\r\n2\r\n", "GET", "n")
}
