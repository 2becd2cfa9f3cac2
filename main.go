// Leash is a proxy for the Redis protocol. It adds locks that last as long as the client's
// connection. README.md says what it is for, docs/design.md how it works.
//
// This file reads the settings, makes the parts, runs them and stops them:
//
//	config    internal/config: flags, environment variables and the file of settings
//	upstream  proxy/upstream: the connections to Redis
//	exchange  proxy/pubsub: subscriptions, shared among sessions
//	locks     lockcmd: LOCK.*, SEM.*, LATCH.*
//	server    proxy: clients and their sessions
//	admin     internal/admin: metrics, health checks and the console, over HTTP
//
// With the name of a command as first argument (leash lock, leash status, …) it runs that command
// of internal/cli instead.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"leash/internal/audit"
	"leash/internal/cli"
	"leash/internal/collector"
	"leash/internal/config"
	"leash/internal/embedded"
	"leash/internal/guard"
	"leash/internal/systemd"
	"leash/lockcmd/failover"
	"leash/proxy"
	"leash/proxy/client"
	"leash/proxy/pubsub"
	"leash/proxy/upstream"
)

// gcPercent is Go's GOGC if the environment does not set it. It is lower than Go's default of 100
// because a million locks use much memory, and relaying makes hardly any garbage.
const gcPercent = 50

func main() {
	guard.AbortOnCrash()
	if cli.Has(os.Args[1:]) {
		os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	conceal()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, guard.Func(nil, "signal", stop)) // a second signal ends the process at once
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "leash:", err)
	}
	os.Exit(exitCode(err))
}

// exitCode is 0 for an orderly end, 2 for wrong settings and 1 for any other error. A crash ends
// the process by a signal instead (guard.AbortOnCrash).
func exitCode(err error) int {
	var usage *config.UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return 2
	}
	return 1
}

// run is the whole program. It returns when ctx has ended and every part has stopped.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	hangups := takeHangups()
	defer signal.Stop(hangups)
	cfg, err := config.Parse(args, environ)
	var info *config.Info
	if errors.As(err, &info) {
		_, err := io.WriteString(stdout, info.Text)
		return err
	}
	if err != nil {
		return err
	}
	if cfg.CheckOnly {
		return checkSettings(cfg, stdout)
	}
	cores := runtime.GOMAXPROCS(cfg.Threads) // the number of cores before --threads limits it
	defer background(func(ctx context.Context) error { collector.Run(ctx, cores); return nil }, nil)()
	level := new(slog.LevelVar)
	level.Set(cfg.LogLevel)
	if cfg.MaxMemory > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(cfg.MaxMemory)
	}
	log := newLogger(cfg.LogFormat, level, stderr)
	slog.SetDefault(log) // for panics in code that has no logger
	warnOfPublicFile(cfg, log)
	live := &liveSettings{args: args, environ: environ, level: level, log: log, current: cfg}
	if cfg.Embedded() {
		redis, err := embedded.Start(context.WithoutCancel(ctx))
		if err != nil {
			return fmt.Errorf("embedded redis: %w", err)
		}
		defer redis.Close()
		cfg.Upstream, cfg.UpstreamMode = []string{redis.Addr()}, "standalone"
		log.Warn("an embedded Redis serves: its data and locks exist only in this process")
	}
	return serve(ctx, cfg, live, hangups, log)
}

// serve makes the parts, runs them until ctx ends, and stops them from front to back. The sessions
// end first, while the watchdog still renews. The watchdog ends next, while Redis is connected.
func serve(ctx context.Context, cfg config.Config, live *liveSettings, hangups <-chan os.Signal, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	certificates, err := loadCertificates(cfg, log)
	if err != nil {
		return err
	}
	h := &hangupReader{log: log}
	password, reread := passwordSource(cfg, h)
	records, stopAudit, err := startAudit(cfg, h, log)
	if err != nil {
		return err
	}
	defer stopAudit()
	defer live.follow(h)()
	defer certificates.follow(h, hangups)()
	admin, err := startAdmin(ctx, cfg, certificates, records, log)
	if err != nil {
		return err
	}
	defer admin.stop()
	listeners, err := listen(cfg, certificates)
	if err != nil {
		return err
	}
	defer closeAll(listeners)
	up, err := newUpstream(cfg, certificates, password, reread, log)
	if err != nil {
		return err
	}
	defer up.CloseClients()
	err = connect(ctx, up, listeners, log)
	if ctx.Err() != nil {
		log.Info("leash has stopped before it was ready")
		return nil
	}
	if err != nil {
		return fmt.Errorf("--upstream: %w", err)
	}
	if err := checkAccess(cfg, up, log); err != nil {
		return err
	}
	exchange := pubsub.New(up, log)
	locks, err := newLocks(cfg, up, exchange, records, log)
	if err != nil {
		return err
	}
	front := proxyConfig(cfg, certificates)
	front.Process, front.Stop = live, stop
	server, err := proxy.New(front, up, locks, exchange, up.Commands(ctx), log)
	if err != nil {
		return err
	}
	live.use(func(cfg config.Config) {
		server.Change(proxyConfig(cfg, certificates))
		locks.Change(lockConfig(cfg, up))
		up.SetMaxPinned(cfg.MaxPinned)
	})
	admin.show(server, locks)
	log.Info("leash is ready", "listen", addresses(listeners), "upstream", cfg.Upstream, "version", config.Version())

	systemd.Ready(log)
	defer background(func(ctx context.Context) error { systemd.Watchdog(ctx, log); return nil }, nil)()
	ctx, release := delayed(ctx, live.drainDelay, log)
	defer release()
	err = runParts(ctx, up, locks, exchange, server, listeners)
	log.Info("leash has stopped")
	return err
}

// startAudit opens the audit log and writes it until stop is called. Without --audit-log it is nil.
func startAudit(cfg config.Config, h *hangupReader, log *slog.Logger) (records *audit.Log, stop func(), err error) {
	if cfg.AuditLog == "" {
		return nil, func() {}, nil
	}
	if records, err = audit.Open(cfg.AuditLog, log); err != nil {
		return nil, nil, fmt.Errorf("--audit-log: %w", err)
	}
	reopen := h.wake()
	end := background(func(ctx context.Context) error { records.Run(ctx, reopen); return nil }, nil)
	return records, func() { endAudit(end, log) }, nil
}

// connect waits for Redis. Until Redis answers, clients get an error.
func connect(ctx context.Context, up *upstream.Upstream, listeners []net.Listener, log *slog.Logger) error {
	stop := client.Refuse(listeners, proxy.NotReady, log)
	defer stop()
	return up.Connect(ctx)
}

// listen opens the ports without TLS, and then those with TLS. It takes systemd's sockets for them.
func listen(cfg config.Config, c certificates) ([]net.Listener, error) {
	sockets, err := systemd.Inherit()
	if err != nil {
		return nil, err
	}
	defer sockets.Close()
	all, err := client.Listen(cfg.Listen, sockets.Listen)
	if err == nil && c.clients != nil {
		var secure []net.Listener
		secure, err = client.ListenTLS(cfg.TLSListen, sockets.Listen, c.clients.Config)
		all = append(all, secure...)
	}
	if err = errors.Join(err, sockets.Unused()); err != nil {
		closeAll(all)
		return nil, err
	}
	return all, nil
}

func closeAll(listeners []net.Listener) {
	for _, ln := range listeners {
		ln.Close()
	}
}

// announceFor is how long the start waits at most until the other Leashes know this one.
const announceFor = time.Second

// announce tells the other Leashes of the fleet that this one is there. They then ask it for its
// subscribers when they answer PUBSUB. It returns when they know, or after announceFor.
func announce(ctx context.Context, exchange *pubsub.Exchange, fail context.CancelCauseFunc) (stop func() error) {
	known := make(chan struct{})
	stop = background(func(ctx context.Context) error {
		return exchange.Run(ctx, sync.OnceFunc(func() { close(known) }))
	}, fail)
	select {
	case <-known:
	case <-ctx.Done():
	case <-time.After(announceFor):
	}
	return stop
}

// addresses are where the listeners listen. Port 0 has become the port that the system chose.
func addresses(listeners []net.Listener) (addrs []string) {
	for _, ln := range listeners {
		addr := ln.Addr().String()
		if ln.Addr().Network() == "unix" {
			addr = "unix:" + addr
		}
		addrs = append(addrs, addr)
	}
	return addrs
}

// background runs f in a goroutine until stop is called. If f returns an error, fail is called with
// it, which stops the whole program. stop waits until f has returned, and returns its error.
func background(f func(context.Context) error, fail context.CancelCauseFunc) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := guard.Call(nil, "main", func() error { return f(ctx) })
		if err != nil {
			fail(err)
		}
		done <- err
	}()
	return func() error { cancel(); return <-done }
}

// grace translates --failover-grace for package lockcmd.
func grace(cfg config.Config) time.Duration {
	if cfg.FailoverGrace == config.Auto {
		return failover.Auto
	}
	return cfg.FailoverGrace
}
