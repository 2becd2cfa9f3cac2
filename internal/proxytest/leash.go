package proxytest

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/proxy"
	"leash/proxy/client"
	"leash/proxy/clients"
	"leash/proxy/pubsub"
	"leash/proxy/upstream"
)

// Leash is a whole proxy in this process, in front of a real Redis.
type Leash struct {
	*proxy.Server
	Upstream *upstream.Upstream
	Locks    *lockcmd.Service
	Exchange *pubsub.Exchange
	Addr     string
	TLS      string // the address for TLS, with Options.TLS
	Logs     *LogBuffer
	Stop     func() // as SIGTERM does; waits until all has ended
}

// Options say how a Leash is to run.
type Options struct {
	Listen   []string
	Front    proxy.Config
	Upstream upstream.Config
	Locks    lockcmd.Config
	TLS      *tls.Config // of a second listener; nil: there is none
	Embedded bool        // the built-in command table instead of the upstream's
}

// Start runs a proxy until the test ends. It fails the test if a goroutine of the proxy remains.
func Start(t testing.TB, addrs []string, opts ...func(*Options)) *Leash {
	t.Helper()
	o := Options{Listen: []string{"127.0.0.1:0"}, Front: proxy.Config{Version: "test"},
		Upstream: upstream.Config{Addrs: addrs, Wait: 30 * time.Second}}
	for _, set := range opts {
		set(&o)
	}
	logs := &LogBuffer{}
	log := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	up, err := upstream.New(o.Upstream, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	exchange := pubsub.New(up, log)
	locks := lockcmd.New(o.Locks, up, exchange, log)
	up.OnSwitch(locks.CheckAll)
	var commands []any
	if !o.Embedded {
		commands = up.Commands(t.Context())
	}
	if o.Front.Process == nil {
		o.Front.Process = noSettings{}
	}
	server, err := proxy.New(o.Front, up, locks, exchange, commands, log)
	if err != nil {
		t.Fatal(err)
	}
	lns, err := client.Listen(o.Listen, net.Listen)
	if err != nil {
		t.Fatal(err)
	}
	l := &Leash{Server: server, Upstream: up, Locks: locks, Exchange: exchange, Addr: lns[0].Addr().String(), Logs: logs}
	if o.TLS != nil {
		secure, err := client.ListenTLS([]string{"127.0.0.1:0"}, net.Listen, func() *tls.Config { return o.TLS })
		if err != nil {
			t.Fatal(err)
		}
		lns, l.TLS = append(lns, secure...), secure[0].Addr().String()
	}
	below, stopBelow := context.WithCancel(context.Background())
	front, stopFront := context.WithCancel(context.Background())
	var running, serving sync.WaitGroup
	running.Go(func() { _ = up.Run(below) })
	running.Go(func() { _ = locks.Run(below) })
	serving.Go(func() { _ = server.Serve(front, lns) })
	l.Stop = sync.OnceFunc(func() {
		stopFront()
		serving.Wait()
		stopBelow()
		running.Wait()
	})
	t.Cleanup(func() {
		done := make(chan struct{})
		go func() { l.Stop(); close(done) }()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Errorf("leash did not stop")
		}
		if t.Failed() {
			t.Logf("leash logged last:\n%s", logs.Tail(40))
		}
	})
	return l
}

// Clients is how many clients are connected.
func (l *Leash) Clients() int { return l.Figures().Clients }

// Unread is the most output in bytes that waits for one client.
func (l *Leash) Unread() (most int) {
	_, all := l.FindClients(func(*clients.Description) bool { return true }, 0, math.MaxInt)
	for _, one := range all {
		most = max(most, one.Output)
	}
	return most
}

// Dial opens a client connection that the test closes at its end.
func (l *Leash) Dial(t testing.TB) *redistest.Client {
	t.Helper()
	return Dial(t, l.Addr)
}

// noSettings are those of a process without any.
type noSettings struct{}

// All implements operators.ProcessSettings.
func (noSettings) All() []string { return nil }

// Set implements operators.ProcessSettings.
func (noSettings) Set([]string, *slog.Logger) error { return nil }
