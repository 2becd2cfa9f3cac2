package links

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/proxy/dial"
)

// lines collects a log for concurrent use.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// TestRefusalIsLoggedOnce checks that a reason why connections fail gives one warning, until the
// node has a new connection. Each client that blocks has a link of its own.
func TestRefusalIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var bad atomic.Bool
	fake := redistest.StartFake(t, func(args []string) string {
		if args[0] == "CLIENT" && bad.Load() {
			return "+odd\r\n" // to CLIENT ID, so the link has no connection
		}
		return ":1\r\n"
	})
	var log lines
	cfg := dial.Config{UpstreamTimeout: time.Minute, RedirectTimeout: time.Nanosecond}
	ns := New(cfg, false, Hooks{Refresh: func() {}}, slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(ns.End)
	node, results := ns.Node(fake.Addr), make(chan result, 1)
	for i, step := range []struct {
		bad   bool
		lines int
	}{{true, 1}, {true, 1}, {true, 1}, {false, 1}, {true, 2}, {true, 2}} {
		bad.Store(step.bad)
		l := node.Pin(dial.Lane{}, nil)
		submit(l, results, "BLPOP", "k", "0")
		if r := next(t, results); (r.cause != nil) != step.bad {
			t.Fatalf("step %d: %+v", i, r)
		}
		l.Unpin(false)
		if n := log.count("no connection to redis"); n != step.lines {
			t.Errorf("step %d: %d lines, want %d", i, n, step.lines)
		}
	}
}

// TestRefusalsDifferByMoreThanDigits checks which reasons count as the same.
func TestRefusalsDifferByMoreThanDigits(t *testing.T) {
	n := &Node{}
	for _, step := range []struct {
		reason string
		anew   bool
	}{{"expired: it is 08:20", true}, {"expired: it is 09:21", false}, {"another name", true}, {"expired: it is 9:22", true}} {
		if got := n.refusedAnew(step.reason); got != step.anew {
			t.Errorf("%s: %v", step.reason, got)
		}
	}
}
