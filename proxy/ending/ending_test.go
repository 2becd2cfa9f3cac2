package ending

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"

	"leash/lockcmd"
)

// output is an output without a socket.
type output struct {
	dropped bool
	failed  error
}

func (o *output) DropLocked()         { o.dropped = true }
func (o *output) DroppedLocked() bool { return o.dropped }
func (o *output) FailedLocked() error { return o.failed }

func newEnding() (*Ending, *output) {
	e, out := new(Ending), new(output)
	e.Init(new(sync.Mutex), out)
	return e, out
}

var errReset = fmt.Errorf("read: %w", syscall.ECONNRESET)

// TestR28EndOfLocks checks what becomes of the locks, for each way in which a session ends.
func TestR28EndOfLocks(t *testing.T) {
	t.Parallel()
	cut := func(reason string) func(*Ending) {
		return func(e *Ending) { e.Cut(reason, false); e.By(errors.New("use of closed connection")) }
	}
	by := func(err error) func(*Ending) { return func(e *Ending) { e.By(err) } }
	const release, expire = lockcmd.Release, lockcmd.Expire
	for _, row := range []struct {
		name     string
		end      func(*Ending)
		failed   error // of a write
		why      string
		settings map[string]lockcmd.Ending
	}{
		{"closed", by(io.EOF), nil, "client closed",
			map[string]lockcmd.Ending{"auto": release, "release": release, "expire": expire}},
		{"quit", func(e *Ending) { e.Set(Quit) }, nil, "quit",
			map[string]lockcmd.Ending{"auto": release, "release": release, "expire": release}},
		{"reset", by(errReset), nil, "connection broken",
			map[string]lockcmd.Ending{"auto": expire, "release": release, "expire": expire}},
		{"reset, then a write failed", by(errReset), syscall.EPIPE, "connection broken",
			map[string]lockcmd.Ending{"auto": expire, "release": release, "expire": expire}},
		{"only a write failed", func(*Ending) {}, syscall.EPIPE, "client closed",
			map[string]lockcmd.Ending{"auto": release, "release": release, "expire": expire}},
		{"vanished", cut(PeerTimeout), syscall.EPIPE, PeerTimeout,
			map[string]lockcmd.Ending{"auto": expire, "release": release, "expire": expire}},
		{"killed", cut("client kill"), nil, "client kill",
			map[string]lockcmd.Ending{"auto": expire, "release": expire, "expire": expire}},
		{"leaving", func(e *Ending) { e.Leave(); e.By(io.EOF) }, nil, "killed",
			map[string]lockcmd.Ending{"auto": expire, "release": expire, "expire": expire}},
		{"refused", func(e *Ending) { e.Refuse("user limit") }, nil, "user limit",
			map[string]lockcmd.Ending{"auto": expire, "release": expire, "expire": expire}},
	} {
		e, out := newEnding()
		out.failed = row.failed
		row.end(e)
		e.Finish()
		for setting, want := range row.settings {
			if got := e.Locks(setting, false); got != want {
				t.Errorf("%s with %s: got %v, want %v", row.name, setting, got, want)
			}
		}
		if got := e.Why(); got != row.why {
			t.Errorf("%s: the reason is %q", row.name, got)
		}
	}
}

// TestR28Balanced checks that a balancer's FIN does not release locks.
func TestR28Balanced(t *testing.T) {
	t.Parallel()
	e, _ := newEnding()
	e.By(io.EOF)
	for setting, want := range map[string]lockcmd.Ending{"auto": lockcmd.Expire, "release": lockcmd.Release} {
		if got := e.Locks(setting, true); got != want {
			t.Errorf("%s: got %v, want %v", setting, got, want)
		}
	}
}

// TestCut checks that the first reason stays, and what others see of a session that was cut off.
func TestCut(t *testing.T) {
	t.Parallel()
	e, out := newEnding()
	if e.IsCut() || e.Ended() || e.Dropped() || e.Expires() {
		t.Error("a new session has ended")
	}
	e.Cut(PeerTimeout, false)
	if !e.IsCut() || !e.Ended() || e.Dropped() || e.Expires() || !out.dropped {
		t.Errorf("after a peer timeout: %+v", e)
	}
	e.Cut("client kill", true)
	if e.Why() != PeerTimeout || !e.Dropped() {
		t.Errorf("after a second cut: %+v", e)
	}
}
