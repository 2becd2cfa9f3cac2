package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leash/proxy/dial"
	"leash/proxy/resp"
)

// fakeRedis answers commands by a function of the test. An empty reply closes the connection.
type fakeRedis struct {
	addr   string
	answer func(args []string) string
	ping   func() string // +PONG if nil

	ended atomic.Int32 // connections

	mu   sync.Mutex
	seen []string
}

func startFake(t *testing.T, answer func(args []string) string) *fakeRedis {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeRedis{addr: ln.Addr().String(), answer: answer}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(t.Context(), func() { conn.Close() })
			serving.Go(func() { defer stop(); defer conn.Close(); f.serve(conn); f.ended.Add(1) })
		}
	})
	t.Cleanup(func() { ln.Close(); serving.Wait() })
	return f
}

func (f *fakeRedis) serve(conn net.Conn) {
	p := resp.Parser{Limits: resp.Limits{MaxBulk: 1 << 30, MaxArgs: 1 << 20}}
	r := bufio.NewReader(conn)
	var buf []byte
	for {
		b, err := r.ReadByte()
		if err != nil {
			return
		}
		buf = append(buf, b)
		if buf[0] != '*' {
			return // inline: the embedded Redis takes that for an error too
		}
		cmd, n, err := p.Next(buf)
		if err != nil {
			return
		}
		if n == 0 {
			continue
		}
		var args []string
		for _, a := range cmd.Args {
			args = append(args, string(a))
		}
		buf = buf[n:]
		reply := f.reply(args)
		if reply == "" {
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

func (f *fakeRedis) reply(args []string) string {
	if args[0] == "PING" && f.ping != nil {
		return f.ping()
	}
	if args[0] == "PING" {
		return "+PONG\r\n"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, strings.Join(args, " "))
	return f.answer(args)
}

func (f *fakeRedis) commands() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.seen, "|")
}

func echo(args []string) string { return string(resp.AppendBulk(nil, args[len(args)-1])) }

// startUpstream runs a standalone Upstream without asking Redis what it is.
func startUpstream(t *testing.T, addr string, patience time.Duration) *Upstream {
	t.Helper()
	return startUpstreamWith(t, Config{Addrs: []string{addr}, Config: dial.Config{RedirectTimeout: patience}})
}

func startUpstreamWith(t *testing.T, cfg Config) *Upstream {
	t.Helper()
	cfg.Mode = "standalone"
	u, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.discover(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- u.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return u
}

// sink is a call of a test. It records the call's results in order.
type sink struct {
	Unlimited
	name    string
	results chan<- result
	reply   []byte
	dropped bool
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

func (s *sink) Dropped() bool { return s.dropped }

func submit(l *Link, results chan<- result, args ...string) *Call {
	c := &Call{Request: resp.AppendCommand(nil, args...), Sink: &sink{name: strings.Join(args, " "), results: results}}
	l.Submit(c)
	return c
}

func next(t *testing.T, results <-chan result) result {
	t.Helper()
	select {
	case r := <-results:
		return r
	case <-time.After(10 * time.Second):
		t.Fatal("no result")
		return result{}
	}
}

func TestLinkRepliesInOrder(t *testing.T) {
	f := startFake(t, echo)
	u := startUpstream(t, f.addr, time.Second)
	l := u.AnyNode().Link(dial.Lane{})
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
	f := startFake(t, func(args []string) string {
		if args[0] == "ASKING" {
			return "+OK\r\n"
		}
		return echo(args)
	})
	u := startUpstream(t, f.addr, time.Second)
	l := u.AnyNode().Link(dial.Lane{})
	results := make(chan result, 3)
	submit(l, results, "ECHO", "a")
	l.Submit(&Call{Request: resp.AppendCommand(nil, "ECHO", "b"), Asking: true,
		Sink: &sink{name: "b", results: results}})
	submit(l, results, "ECHO", "c")
	for _, want := range []string{"a", "b", "c"} {
		if r := next(t, results); r.reply != string(resp.AppendBulk(nil, want)) {
			t.Errorf("got %+v, want %q", r, want)
		}
	}
	if got := f.commands(); got != "ECHO a|ASKING|ECHO b|ECHO c" {
		t.Errorf("sent %q", got)
	}
}

// TestLinkLosesWrittenCallsAndSendsOthers checks that a call that Redis may have run is never
// sent again. The calls behind it go out on a new connection.
func TestLinkLosesWrittenCallsAndSendsOthers(t *testing.T) {
	f := startFake(t, func(args []string) string {
		if args[1] == "die" {
			return ""
		}
		return echo(args)
	})
	u := startUpstream(t, f.addr, time.Second)
	l := u.AnyNode().Link(dial.Lane{})
	results := make(chan result, 3)
	submit(l, results, "ECHO", "die")
	if r := next(t, results); r.cause == nil || !r.written {
		t.Errorf("got %+v, want lost after it was written", r)
	}
	submit(l, results, "ECHO", "a")
	if r := next(t, results); r.reply != "$1\r\na\r\n" {
		t.Errorf("got %+v", r)
	}
	if got := f.commands(); got != "ECHO die|ECHO a" {
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
	u := startUpstream(t, addr, 100*time.Millisecond)
	l := u.AnyNode().Link(dial.Lane{})
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

func TestLinkDropsAbandonedCalls(t *testing.T) {
	f := startFake(t, echo)
	u := startUpstream(t, f.addr, time.Second)
	l := u.AnyNode().Link(dial.Lane{})
	results := make(chan result, 2)
	l.Submit(&Call{Request: resp.AppendCommand(nil, "ECHO", "a"),
		Sink: &sink{name: "a", results: results, dropped: true}})
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
	if sent := f.commands(); sent != "ECHO b" {
		t.Errorf("sent %q", sent)
	}
}

func TestLinkClosedLosesInOrder(t *testing.T) {
	f := startFake(t, func(args []string) string {
		return echo(args)
	})
	u := startUpstream(t, f.addr, time.Second)
	n := u.AnyNode()
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
	answer := "+OK\r\n"
	f := startFake(t, func([]string) string { return answer })
	u := startUpstream(t, f.addr, time.Second)
	if _, err := u.Try(t.Context(), f.addr, []byte("*1\r\n$4\r\nAUTH\r\n"), "bob", []byte("pw")); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	answer = "-WRONGPASS no\r\n"
	f.mu.Unlock()
	refused := make(chan dial.Lane, 1)
	u.OnRefused(func(lane dial.Lane) { refused <- lane })
	results := make(chan result, 1)
	submit(u.AnyNode().Link(dial.Lane{User: "bob"}), results, "ECHO", "a")
	if r := next(t, results); !errors.Is(r.cause, dial.ErrRefused) || r.written {
		t.Errorf("got %+v", r)
	}
	select {
	case lane := <-refused:
		if lane.User != "bob" {
			t.Errorf("refused %+v", lane)
		}
	case <-time.After(10 * time.Second):
		t.Error("OnRefused was not called")
	}
	if strings.Contains(f.commands(), "ECHO") {
		t.Error("a command was sent without authentication")
	}
}

// TestLinkUnexpectedReply checks that a reply without a call ends the connection, because the order
// of replies is lost. While a call is in flight, such a reply cannot be told from the call's own.
func TestLinkUnexpectedReply(t *testing.T) {
	f := startFake(t, func(args []string) string {
		if args[1] == "twice" {
			return "+a\r\n+b\r\n"
		}
		return echo(args)
	})
	u := startUpstream(t, f.addr, time.Second)
	l := u.AnyNode().Link(dial.Lane{})
	results := make(chan result, 2)
	submit(l, results, "ECHO", "twice")
	if r := next(t, results); r.reply != "+a\r\n" {
		t.Errorf("got %+v", r)
	}
	// between checks
	for deadline := time.Now().Add(10 * time.Second); f.ended.Load() == 0; time.Sleep(time.Millisecond) {
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
	f := startFake(t, func(args []string) string { <-gate; return "+OK\r\n" })
	u := startUpstream(t, f.addr, time.Second)
	l := u.AnyNode().Link(dial.Lane{})
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
	case <-time.After(10 * time.Second):
		t.Fatal("the channel of Room was not closed")
	}
}
