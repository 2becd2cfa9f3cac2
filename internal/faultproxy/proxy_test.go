package faultproxy_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/redistest"
)

const soon = 5 * time.Second

// start returns a Redis with a proxy in front of it.
func start(t *testing.T) (*redistest.Server, *faultproxy.Proxy) {
	t.Helper()
	s := redistest.Start(t)
	return s, before(t, s.Addr)
}

func before(t *testing.T, target string) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func dial(t *testing.T, addr string) *redistest.Client {
	t.Helper()
	c, err := redistest.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func mustDo(t *testing.T, c *redistest.Client, want string, args ...string) {
	t.Helper()
	if got, err := c.Do(args...); err != nil || got != want {
		t.Fatalf("%q: got %q, %v; want %q", args, got, err, want)
	}
}

func mustRead(t *testing.T, c *redistest.Client, want string) {
	t.Helper()
	if got, err := c.Read(); err != nil || got != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

func mustEnd(t *testing.T, c *redistest.Client, want error) {
	t.Helper()
	if got, err := c.Read(); got != "" || !errors.Is(err, want) {
		t.Fatalf("got %q, %v; want the end by %v", got, err, want)
	}
}

func mustSend(t *testing.T, c *redistest.Client, raw string) {
	t.Helper()
	if err := c.Send(raw); err != nil {
		t.Fatal(err)
	}
}

func mustTrigger(t *testing.T, f *faultproxy.Fault) {
	t.Helper()
	if err := f.Await(soon); err != nil {
		t.Fatal(err)
	}
}

// mustBeSilent checks that nothing comes for a moment.
func mustBeSilent(t *testing.T, c *redistest.Client) {
	t.Helper()
	c.Timeout = 20 * time.Millisecond
	defer func() { c.Timeout = 0 }()
	if got, err := c.Read(); got != "" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %q, %v; want silence", got, err)
	}
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(soon)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", what)
		}
		<-tick.C
	}
}

func cmd(args ...string) string { return redistest.Command(args...) }

func TestForwardsBothWays(t *testing.T) {
	_, p := start(t)
	c := dial(t, p.Addr())
	big := strings.Repeat("x", 3<<20)
	mustDo(t, c, "+OK\r\n", "SET", "big", big)
	if got, err := c.Do("GET", "big"); err != nil || len(got) != len(big)+len("$3145728\r\n\r\n") {
		t.Fatalf("got %d bytes, %v", len(got), err)
	}
	mustSend(t, c, "PING\r\n*0\r\n\r\n*1\r\n$4\r\nPING\r\nECHO 'a b'\r\n")
	mustRead(t, c, "+PONG\r\n")
	mustRead(t, c, "+PONG\r\n")
	mustRead(t, c, "$3\r\na b\r\n")
	mustDo(t, c, "+OK\r\n", "QUIT")
	mustEnd(t, c, io.EOF)
	stats := p.Stats()
	if stats.Accepted != 1 || stats.Commands != 6 || stats.Replies != 6 {
		t.Errorf("got %+v", stats)
	}
	eventually(t, "no connection is open", func() bool { return p.Stats().Open == 0 })
}

func TestHalfClosedClientGetsItsReplies(t *testing.T) {
	_, p := start(t)
	c := dial(t, p.Addr())
	mustSend(t, c, cmd("PING")+cmd("ECHO", "last"))
	if err := c.Conn().(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	mustRead(t, c, "+PONG\r\n")
	mustRead(t, c, "$4\r\nlast\r\n")
	mustEnd(t, c, io.EOF)
}

func TestProtocolErrorPassesThrough(t *testing.T) {
	_, p := start(t)
	c := dial(t, p.Addr())
	mustSend(t, c, cmd("PING")+"*1\r\n!4\r\nPING\r\n")
	mustRead(t, c, "+PONG\r\n")
	mustRead(t, c, "-ERR Protocol error: expected '$', got '!'\r\n")
	mustEnd(t, c, io.EOF)
}

func TestFreezeStopsBytesAndKeepsConnections(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	mustDo(t, c, "+OK\r\n", "SET", "k", "before")
	p.Freeze()
	p.Freeze()
	mustSend(t, c, cmd("SET", "k", "frozen"))
	late := dial(t, p.Addr())
	mustSend(t, late, cmd("PING"))
	mustBeSilent(t, c)
	mustBeSilent(t, late)
	if got := s.Client().Get(t.Context(), "k").Val(); got != "before" {
		t.Fatalf("a frozen proxy forwarded: got %q", got)
	}
	p.Thaw()
	p.Thaw()
	mustRead(t, c, "+OK\r\n")
	mustRead(t, late, "+PONG\r\n")
}

func TestCutEndsFrozenConnections(t *testing.T) {
	for how, want := range map[faultproxy.Ending]error{faultproxy.FIN: io.EOF, faultproxy.RST: syscall.ECONNRESET} {
		_, p := start(t)
		a, b := dial(t, p.Addr()), dial(t, p.Addr())
		mustDo(t, a, "+PONG\r\n", "PING")
		mustDo(t, b, "+PONG\r\n", "PING")
		p.Freeze()
		if n := p.Cut(how); n != 2 {
			t.Errorf("cut %d connections, want 2", n)
		}
		mustEnd(t, a, want)
		mustEnd(t, b, want)
		p.Thaw()
		mustDo(t, dial(t, p.Addr()), "+PONG\r\n", "PING")
		if n := p.Stats().Cut; n != 2 {
			t.Errorf("got %d cut in the stats, want 2", n)
		}
	}
}

func TestRefuse(t *testing.T) {
	_, p := start(t)
	c := dial(t, p.Addr())
	mustDo(t, c, "+PONG\r\n", "PING")
	for range 3 {
		if err := p.Refuse(true); err != nil {
			t.Fatal(err)
		}
		if conn, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("got %v, %v; want refused", conn, err)
		}
		mustDo(t, c, "+PONG\r\n", "PING")
		if err := p.Refuse(false); err != nil {
			t.Fatal(err)
		}
		mustDo(t, dial(t, p.Addr()), "+PONG\r\n", "PING")
	}
}

func TestDelayIsEachWayAndDoesNotAddUp(t *testing.T) {
	_, p := start(t)
	c := dial(t, p.Addr())
	const delay = 200 * time.Millisecond
	p.Delay(delay)
	began := time.Now()
	for range 20 {
		mustSend(t, c, cmd("PING"))
	}
	for range 20 {
		mustRead(t, c, "+PONG\r\n")
	}
	if took := time.Since(began); took < 2*delay || took > 20*delay {
		t.Errorf("20 pipelined commands took %v, want a little over %v", took, 2*delay)
	}
	p.Delay(0)
	mustDo(t, c, "+PONG\r\n", "PING")
}

func TestDeadTargetClosesClient(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	mustDo(t, c, "+PONG\r\n", "PING")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Read(); err == nil {
		t.Fatalf("got %q from a dead target", got)
	}
	if got, err := dial(t, p.Addr()).Do("PING"); err == nil {
		t.Fatalf("got %q from a dead target", got)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	mustDo(t, dial(t, p.Addr()), "+PONG\r\n", "PING")
}

func TestClientResetReachesTarget(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := before(t, ln.Addr().String())
	c := dial(t, p.Addr())
	target, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if err := c.Conn().(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := target.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %v, want a reset", err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	_, p := start(t)
	c, held := dial(t, p.Addr()), dial(t, p.Addr())
	f := p.HoldAfter(faultproxy.Named("ECHO"))
	mustSend(t, held, cmd("ECHO", "x"))
	mustTrigger(t, f)
	p.Freeze()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Read(); err == nil {
		t.Fatalf("got %q", got)
	}
	if n := p.Stats().Open; n != 0 {
		t.Errorf("%d connections open", n)
	}
	if err := p.Refuse(false); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want net.ErrClosed", err)
	}
}
