package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/proxy/client"
	"leash/proxy/pubsub"
	"leash/proxy/subscribers"
	"leash/proxy/upstream"
)

// leash is a whole proxy in this process, in front of a real Redis.
type leash struct {
	*Server
	addr string
	tls  string // the address for TLS, with options.tls
	logs *logBuffer
	stop func() // as SIGTERM does; waits until all has ended
}

type options struct {
	listen   []string
	front    Config
	up       upstream.Config
	locks    lockcmd.Config
	tls      *tls.Config // of a second listener; nil: there is none
	embedded bool        // the built-in command table instead of the upstream's
}

// startLeash runs a proxy until the test ends. It fails the test if a goroutine of the proxy
// remains.
func startLeash(t testing.TB, addrs []string, opts ...func(*options)) *leash {
	t.Helper()
	o := options{listen: []string{"127.0.0.1:0"}, front: Config{Version: "test"},
		up: upstream.Config{Addrs: addrs, Wait: 30 * time.Second}}
	for _, set := range opts {
		set(&o)
	}
	logs := &logBuffer{}
	log := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	up, err := upstream.New(o.up, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.locks.Database, o.locks.Links, o.locks.Owners = up.Database, up, up.Owners
	exchange := pubsub.New(up, log)
	locks := lockcmd.New(o.locks, up.Client(), exchange, log)
	up.OnSwitch(locks.CheckAll)
	var commands []any
	if !o.embedded {
		commands = up.Commands(t.Context())
	}
	server, err := New(o.front, up, locks, exchange, commands, log)
	if err != nil {
		t.Fatal(err)
	}
	lns, err := client.Listen(o.listen, net.Listen)
	if err != nil {
		t.Fatal(err)
	}
	l := &leash{Server: server, addr: lns[0].Addr().String(), logs: logs}
	if o.tls != nil {
		secure, err := client.ListenTLS([]string{"127.0.0.1:0"}, net.Listen, func() *tls.Config { return o.tls })
		if err != nil {
			t.Fatal(err)
		}
		lns, l.tls = append(lns, secure...), secure[0].Addr().String()
	}
	below, stopBelow := context.WithCancel(context.Background())
	front, stopFront := context.WithCancel(context.Background())
	var running, serving sync.WaitGroup
	running.Go(func() { _ = up.Run(below) })
	running.Go(func() { _ = locks.Run(below) })
	serving.Go(func() { _ = server.Serve(front, lns) })
	l.stop = sync.OnceFunc(func() {
		stopFront()
		serving.Wait()
		stopBelow()
		running.Wait()
		up.CloseClients()
	})
	t.Cleanup(func() {
		done := make(chan struct{})
		go func() { l.stop(); close(done) }()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Errorf("leash did not stop")
		}
		if t.Failed() {
			t.Logf("leash logged last:\n%s", logs.tail(40))
		}
	})
	return l
}

// clients is how many clients are connected.
func (l *leash) clients() int { return l.Figures().Clients }

// unread is the most output in bytes that waits for one client.
func (l *leash) unread() (most int) {
	_, all := l.SearchClients("", 0, math.MaxInt)
	for _, one := range all {
		most = max(most, one.Output)
	}
	return most
}

// dial opens a client connection that the test closes at its end.
func (l *leash) dial(t testing.TB) *redistest.Client {
	t.Helper()
	return dialAddr(t, l.addr)
}

// limitSubscribers sets how much output of subscriptions may wait for one client.
func limitSubscribers(to subscribers.Limits) func(*options) {
	return func(o *options) { o.front.SubscriberLimits = to }
}

func dialAddr(t testing.TB, addr string) *redistest.Client {
	t.Helper()
	c, err := redistest.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// do sends one command and returns its raw reply.
func do(t testing.TB, c *redistest.Client, args ...string) string {
	t.Helper()
	reply, err := c.Do(args...)
	if err != nil {
		t.Fatalf("%.80q: %v", args, err)
	}
	return reply
}

// want sends one command and checks its raw reply.
func want(t testing.TB, c *redistest.Client, reply string, args ...string) {
	t.Helper()
	if got := do(t, c, args...); got != reply {
		t.Fatalf("%.80q: got %.200q, want %.200q", args, got, reply)
	}
}

// exchange sends raw bytes, half-closes, and returns all bytes until the server closes.
func exchange(t testing.TB, addr, raw string) string {
	t.Helper()
	return exchangePieces(t, addr, raw, len(raw))
}

func exchangePieces(t testing.TB, addr, raw string, cut int) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	for _, piece := range []string{raw[:cut], raw[cut:]} {
		if piece != "" {
			// The server may have closed already; the bytes that it sent count.
			_, _ = conn.Write([]byte(piece))
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	var out bytes.Buffer
	_, _ = bufio.NewReader(conn).WriteTo(&out)
	return out.String()
}

// eventually polls until ok, failing the test after thirty seconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second) // a second link of a lane stays open for 30 s
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // between looks, not for an event
	}
}

// logBuffer keeps log lines. Safe for concurrent use.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) tail(n int) string {
	lines := strings.Split(strings.TrimSpace(l.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
