package proxy

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leash/internal/redistest"
)

func TestKeepAliveFor(t *testing.T) {
	for timeout, want := range map[time.Duration][2]time.Duration{
		11 * time.Second: {5 * time.Second, 2 * time.Second},
		4 * time.Second:  {time.Second, time.Second},
		60 * time.Second: {27 * time.Second, 10 * time.Second},
	} {
		got := keepAliveFor(timeout)
		if got.Idle != want[0] || got.Interval != want[1] || got.Idle+3*got.Interval > timeout {
			t.Errorf("%v: idle %v, interval %v, want %v", timeout, got.Idle, got.Interval, want)
		}
	}
}

// TestR29HoldersAreWatchedClosely: R29. A socket with a hold or a waiter gets
// tight keepalives, and the kernel's usual ones when it has neither.
func TestR29HoldersAreWatchedClosely(t *testing.T) {
	redis := redistest.Start(t)
	l := startLeash(t, []string{redis.Addr})
	client := l.dial(t)
	want(t, client, "+PONG\r\n", "PING")
	idle := func() (seconds int) {
		_ = l.all()[0].conn.raw.Control(func(fd uintptr) {
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
}
