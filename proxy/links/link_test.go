package links

import (
	"errors"
	"io"
	"leash/internal/redistest"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leash/proxy/dial"
	"leash/proxy/resp"
)

// start returns a node that Redis need not confirm. patience is the redirect time-out.
func start(t *testing.T, addr string, patience time.Duration) *Node {
	t.Helper()
	return startWith(t, addr, dial.Config{RedirectTimeout: patience}, Hooks{})
}

func startWith(t *testing.T, addr string, cfg dial.Config, hooks Hooks) *Node {
	t.Helper()
	hooks.Refresh = func() {}
	ns := New(cfg, false, hooks, slog.New(slog.DiscardHandler))
	t.Cleanup(ns.End)
	return ns.Node(addr)
}

// sink is a request of a test. It records the request's results in order.
type sink struct {
	name    string
	results chan<- result
	reply   []byte
}

type result struct {
	name, reply string
	written     bool
	cause       error
}

func (s *sink) Reply(p []byte, done bool) Flusher {
	s.reply = append(s.reply, p...)
	if done {
		s.results <- result{name: s.name, reply: string(s.reply)}
	}
	return nil
}

func (s *sink) Lost(written bool, cause error) {
	s.results <- result{name: s.name, written: written, cause: cause}
}

func submit(l *Link, results chan<- result, args ...string) *Request {
	by := &sink{name: strings.Join(args, " "), results: results}
	c := &Request{Command: resp.AppendCommand(nil, args...), Sink: by}
	l.Submit(c)
	return c
}

func next(t *testing.T, results <-chan result) result {
	t.Helper()
	select {
	case r := <-results:
		return r
	case <-time.After(time.Minute):
		t.Fatal("no result")
		return result{}
	}
}

func TestLinkRepliesInOrder(t *testing.T) {
	f := redistest.StartFake(t, redistest.Echo)
	n := start(t, f.Addr, 10*time.Second)
	l := n.Link(dial.Lane{})
	results := make(chan result, 3000)
	var want []string
	for i := range 1000 {
		word := strings.Repeat("x", i*7%4000)
		want = append(want, word)
		submit(l, results, "ECHO", word)
	}
	for i, word := range want {
		if r := next(t, results); r.reply != string(resp.AppendBulk(nil, word)) {
			t.Fatalf("reply %d: %.50q, want %.50q", i, r.reply, word)
		}
	}
}

func TestLinkSwallowsAskingsReply(t *testing.T) {
	f := redistest.StartFake(t, func(args []string) string {
		if args[0] == "ASKING" {
			return "+OK\r\n"
		}
		return redistest.Echo(args)
	})
	n := start(t, f.Addr, 10*time.Second)
	l := n.Link(dial.Lane{})
	results := make(chan result, 3)
	submit(l, results, "ECHO", "a")
	l.Submit(&Request{Command: resp.AppendCommand(nil, "ECHO", "b"), Asking: true,
		Sink: &sink{name: "b", results: results}})
	submit(l, results, "ECHO", "c")
	for _, want := range []string{"a", "b", "c"} {
		if r := next(t, results); r.reply != string(resp.AppendBulk(nil, want)) {
			t.Errorf("got %+v, want %q", r, want)
		}
	}
	if got := f.Commands(); got != "ECHO a|ASKING|ECHO b|ECHO c" {
		t.Errorf("sent %q", got)
	}
}

// TestLinkNamesRefusedAsking checks that a request gets the error with which Redis refused the
// ASKING before it, if Redis has sent the request back for that.
func TestLinkNamesRefusedAsking(t *testing.T) {
	const refusal, moved = "-NOPERM no right to asking\r\n", "-MOVED 1 127.0.0.1:1\r\n"
	f := redistest.StartFake(t, func(args []string) string {
		switch {
		case args[0] == "ASKING":
			return refusal
		case args[0] == "GET":
			return moved
		}
		return redistest.Echo(args)
	})
	l := start(t, f.Addr, 10*time.Second).Link(dial.Lane{})
	results := make(chan result, 4)
	for _, c := range []struct {
		asking      bool
		name, reply string
	}{
		{true, "GET", refusal}, {false, "GET", moved}, {true, "ECHO", "$1\r\nk\r\n"}, {false, "GET", moved},
	} {
		l.Submit(&Request{Command: resp.AppendCommand(nil, c.name, "k"), Asking: c.asking,
			Sink: &sink{name: c.name, results: results}})
		if r := next(t, results); r.reply != c.reply {
			t.Errorf("%+v: got %q", c, r.reply)
		}
	}
}

// TestLinkLosesWrittenCallsAndSendsOthers checks that a request that Redis may have run is never
// sent again. The requests behind it go out on a new connection.
func TestLinkLosesWrittenCallsAndSendsOthers(t *testing.T) {
	f := redistest.StartFake(t, func(args []string) string {
		if args[1] == "die" {
			return ""
		}
		return redistest.Echo(args)
	})
	n := start(t, f.Addr, 10*time.Second)
	l := n.Link(dial.Lane{})
	results := make(chan result, 3)
	submit(l, results, "ECHO", "die")
	if r := next(t, results); r.cause == nil || !r.written {
		t.Errorf("got %+v, want lost after it was written", r)
	}
	submit(l, results, "ECHO", "a")
	if r := next(t, results); r.reply != "$1\r\na\r\n" {
		t.Errorf("got %+v", r)
	}
	if got := f.Commands(); got != "ECHO die|ECHO a" {
		t.Errorf("sent %q", got)
	}
}

func TestLinkWithoutNodeGivesUp(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	n := start(t, addr, 100*time.Millisecond)
	l := n.Link(dial.Lane{})
	results := make(chan result, 2)
	for _, name := range []string{"a", "b"} {
		submit(l, results, "ECHO", name)
	}
	for _, name := range []string{"ECHO a", "ECHO b"} {
		if r := next(t, results); r.name != name || r.written || !errors.Is(r.cause, ErrUnreachable) {
			t.Errorf("got %+v, want %s unreachable", r, name)
		}
	}
}

// TestBackOffEndsCallsInTime checks that a request does not wait for the end of the back-off.
func TestBackOffEndsCallsInTime(t *testing.T) {
	n := start(t, "127.0.0.1:1", 100*time.Millisecond)
	l := newLink(n, dial.Lane{})
	results := make(chan result, 1)
	submit(l, results, "ECHO", "a")
	go l.backOff(n.ctx, time.Now(), 24*time.Hour, io.EOF)
	if r := next(t, results); r.written || !errors.Is(r.cause, ErrUnreachable) {
		t.Errorf("got %+v, want it unreachable", r)
	}
}

func TestLinkDropsAbandonedCalls(t *testing.T) {
	f := redistest.StartFake(t, redistest.Echo)
	n := start(t, f.Addr, 10*time.Second)
	l := n.Link(dial.Lane{})
	results := make(chan result, 2)
	dropped := &deadlineSink{sink: sink{name: "a", results: results}, dropped: true}
	l.Submit(&Request{Command: resp.AppendCommand(nil, "ECHO", "a"), Sink: dropped, Permit: dropped})
	submit(l, results, "ECHO", "b")
	got := map[string]result{}
	for range 2 {
		r := next(t, results)
		got[r.name] = r
	}
	if a := got["a"]; !errors.Is(a.cause, ErrDropped) || a.written {
		t.Errorf("a: %+v", a)
	}
	if b := got["ECHO b"]; b.reply != "$1\r\nb\r\n" {
		t.Errorf("b: %+v", b)
	}
	if sent := f.Commands(); sent != "ECHO b" {
		t.Errorf("sent %q", sent)
	}
}

func TestLinkClosedLosesInOrder(t *testing.T) {
	f := redistest.StartFake(t, func(args []string) string {
		return redistest.Echo(args)
	})
	n := start(t, f.Addr, 10*time.Second)
	l := n.Link(dial.Lane{User: "nobody"}) // never gets a connection: no credential
	results := make(chan result, 4)
	n.closeLane(dial.Lane{User: "nobody"}, ErrClosed)
	for _, name := range []string{"a", "b", "c"} {
		submit(l, results, "ECHO", name)
	}
	for _, name := range []string{"ECHO a", "ECHO b", "ECHO c"} {
		if r := next(t, results); r.name != name || !errors.Is(r.cause, ErrClosed) || r.written {
			t.Errorf("got %+v, want %s closed", r, name)
		}
	}
	if n.Link(dial.Lane{User: "nobody"}) == l {
		t.Error("the closed link is still the lane's")
	}
}

func TestLinkRefusedCredential(t *testing.T) {
	var wrong atomic.Bool
	f := redistest.StartFake(t, func([]string) string {
		if wrong.Load() {
			return "-WRONGPASS no\r\n"
		}
		return "+OK\r\n"
	})
	refused := make(chan dial.Lane, 1)
	n := startWith(t, f.Addr, dial.Config{}, Hooks{Refused: func(lane dial.Lane, _ *Node) { refused <- lane }})
	if _, err := n.nodes.Dialer.Try(t.Context(), f.Addr, []byte("*1\r\n$4\r\nAUTH\r\n"), "bob", []byte("pw")); err != nil {
		t.Fatal(err)
	}
	wrong.Store(true)
	results := make(chan result, 1)
	submit(n.Link(dial.Lane{User: "bob"}), results, "ECHO", "a")
	if r := next(t, results); !errors.Is(r.cause, dial.ErrRefused) || r.written {
		t.Errorf("got %+v", r)
	}
	select {
	case lane := <-refused:
		if lane.User != "bob" {
			t.Errorf("refused %+v", lane)
		}
	case <-time.After(time.Minute):
		t.Error("the hook was not called")
	}
	if strings.Contains(f.Commands(), "ECHO") {
		t.Error("a command was sent without authentication")
	}
}

// TestLinkUnexpectedReply checks that a reply without a request ends the connection, because the
// order of replies is lost. While a request is in flight, such a reply cannot be told from the
// request's own.
func TestLinkUnexpectedReply(t *testing.T) {
	f := redistest.StartFake(t, func(args []string) string {
		if args[1] == "twice" {
			return "+a\r\n+b\r\n"
		}
		return redistest.Echo(args)
	})
	n := start(t, f.Addr, 10*time.Second)
	l := n.Link(dial.Lane{})
	results := make(chan result, 2)
	submit(l, results, "ECHO", "twice")
	if r := next(t, results); r.reply != "+a\r\n" {
		t.Errorf("got %+v", r)
	}
	// between checks
	for deadline := time.Now().Add(time.Minute); f.Ended.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection stays")
		}
	}
	submit(l, results, "ECHO", "c")
	if r := next(t, results); r.reply != "$1\r\nc\r\n" {
		t.Fatalf("the link did not recover: got %+v", r)
	}
}

func TestLinkRoom(t *testing.T) {
	gate := make(chan struct{})
	f := redistest.StartFake(t, func(args []string) string { <-gate; return "+OK\r\n" })
	n := start(t, f.Addr, 10*time.Second)
	l := n.Link(dial.Lane{})
	results := make(chan result, 1000)
	value := strings.Repeat("x", 1<<20)
	count := 0
	for l.Room() == nil {
		submit(l, results, "SET", value)
		if count++; count > 100 {
			t.Fatal("the link never fills")
		}
	}
	room := l.Room()
	close(gate)
	for range count {
		if r := next(t, results); r.reply != "+OK\r\n" {
			t.Fatalf("got %+v", r)
		}
	}
	select {
	case <-room:
	case <-time.After(time.Minute):
		t.Fatal("the channel of Room was not closed")
	}
}

// TestOldPasswordIsNoWarning checks that a user's last client, which leaves while a connection is
// made, causes no warning.
func TestOldPasswordIsNoWarning(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	ns := New(dial.Config{}, false, Hooks{Refresh: func() {}}, slog.New(slog.NewTextHandler(&logged, nil)))
	l := &Link{node: &Node{nodes: ns}, lane: dial.Lane{User: "app"}}
	l.logRefusal(dial.ErrOldPassword)
	if logged.Len() > 0 {
		t.Errorf("it logs %q", logged.String())
	}
}
