// Package program is the proxy as a process: it reads the settings, makes the parts, runs them and
// stops them:
//
//	config    internal/config: flags, environment variables and the file of settings
//	upstream  proxy/upstream: the connections to Redis
//	exchange  proxy/pubsub: subscriptions, shared among sessions
//	locks     lockcmd: LOCK.*, SEM.*, LATCH.*
//	server    proxy: clients and their sessions
//	admin     internal/admin: metrics, health checks and the console, over HTTP
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"leash/internal/collector"
	"leash/internal/config"
	"leash/internal/embedded"
	"leash/internal/guard"
	"leash/internal/systemd"
	"leash/proxy"
	"leash/proxy/pubsub"
)

// gcPercent is Go's GOGC if the environment does not set it. It is lower than Go's default of 100
// because a million locks use much memory, and relaying makes hardly any garbage. A small process
// has more (collector.KeepRoom).
const gcPercent = 50

// Main runs Leash with the arguments and the environment of this process until SIGINT or SIGTERM.
// It returns the status to exit with. A second signal ends the process at once.
func Main() int {
	conceal()
	if os.Getenv("GOGC") == "" {
		defer collector.KeepRoom(gcPercent)()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, guard.Func(nil, "signal", stop))
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "leash:", err)
	}
	return exitCode(err)
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
		warnOfPublicFile(cfg, newLogger(cfg.LogFormat, cfg.LogLevel, stderr))
		return checkSettings(cfg, stdout)
	}
	cores := runtime.GOMAXPROCS(cfg.Threads) // the number of cores before --threads limits it
	defer background(func(ctx context.Context) error { collector.Run(ctx, cores); return nil }, nil)()
	level := new(slog.LevelVar)
	level.Set(cfg.LogLevel)
	if cfg.MaxMemory > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(cfg.MaxMemory)
	}
	// Without this, Go ends the process when nobody reads standard error any more. A value that
	// nobody receives is better than signal.Ignore, which the command for a password would inherit.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	log, endLog := startLog(cfg.LogFormat, level, stderr)
	defer endLog()
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
	locks := newLocks(cfg, up, exchange, records, log)
	front := proxyConfig(cfg, certificates)
	front.Process, front.Stop = live, stop
	server, err := proxy.New(front, up, locks, exchange, up.Commands(ctx), log)
	if err != nil {
		return err
	}
	live.use(func(cfg config.Config) {
		if n := fitOpenFiles(cfg.MaxClients); n < cfg.MaxClients {
			log.Warn("the limit of open files is too low for --max-clients", "max-clients", cfg.MaxClients, "served", n)
		}
		server.Change(proxySettings(cfg))
		locks.Change(lockConfig(cfg))
		up.Nodes.SetMaxPinned(cfg.MaxPinned)
	})
	admin.show(server, locks)
	log.Info("leash is ready", "listen", addresses(listeners), "upstream", cfg.Upstream, "version", config.Version())

	systemd.Ready(log)
	defer background(func(ctx context.Context) error { systemd.Watchdog(ctx, log); return nil }, nil)()
	ctx, release := delayed(ctx, live.drainDelay, server.AnnounceStop, log)
	defer release()
	err = runParts(ctx, up, locks, exchange, server, listeners)
	log.Info("leash has stopped")
	return err
}
