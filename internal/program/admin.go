package program

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"leash/internal/admin"
	"leash/internal/audit"
	"leash/internal/config"
	"leash/internal/console"
	"leash/internal/metrics"
	"leash/internal/tlsfiles"
	"leash/lockcmd"
	"leash/proxy"
)

// adminPort is the port for operators. It serves from before Redis is connected until everything
// else has stopped. Without --admin it does nothing.
type adminPort struct {
	ctx    context.Context // done once Leash begins to stop
	server atomic.Pointer[proxy.Server]
	stop   func()

	audit   *audit.Log
	console *console.Console // nil without --admin
	backend atomic.Pointer[console.Backend]
}

// startAdmin opens the port and serves it until stop is called.
func startAdmin(ctx context.Context, cfg config.Config, c certificates, audit *audit.Log, log *slog.Logger) (*adminPort, error) {
	a := &adminPort{ctx: ctx, audit: audit, stop: func() {}}
	if cfg.Admin == "" {
		return a, nil
	}
	ln, err := net.Listen("tcp", cfg.AdminAddr())
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	addr := ln.Addr()
	log.Info("admin port is open", "address", addr, "tls", c.admin != nil, "token", cfg.AdminToken != "")
	if c.admin != nil {
		ln = tls.NewListener(ln, followed(c.admin))
	}
	a.console = console.New(console.Config{Version: config.Version(), Backend: a.backend.Load, Ready: a.ready, Log: log})
	port := admin.New(admin.Config{
		Token: string(cfg.AdminToken), WriteToken: string(cfg.AdminWriteToken), Exposed: !admin.IsLoopback(addr),
		Metrics: a.metrics(c), Ready: a.answers, API: a.console.API(), Page: a.console.Page(), OnStop: a.console.Close, Log: log,
	})
	end := background(func(ctx context.Context) error {
		if err := port.Run(ctx, ln); err != nil { // the locks are more important than this port
			log.Error("admin port failed", "err", err)
		}
		return nil
	}, nil)
	a.stop = func() { _ = end() }
	return a, nil
}

// followed are TLS settings that are those of the source at each handshake.
func followed(source *tlsfiles.Source) *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return source.Config(), nil }}
}

// show makes the figures of the server and the locks visible.
func (a *adminPort) show(server *proxy.Server, locks *lockcmd.Service) {
	a.server.Store(server)
	if a.console != nil {
		locks.AddObserver(a.console.Observer())
		a.backend.Store(&console.Backend{Server: server, Locks: locks})
	}
}

// ready reports whether clients can work now. It does not block.
func (a *adminPort) ready() bool {
	server := a.server.Load()
	return server != nil && server.Ready() && a.ctx.Err() == nil
}

// answers is ready, but asks Redis if necessary, for 0.9 s at most.
func (a *adminPort) answers(ctx context.Context) bool {
	server := a.server.Load()
	return server != nil && server.Answers(ctx) && a.ctx.Err() == nil
}

// figures returns the figures of the server, if there is one yet.
func (a *adminPort) figures() (proxy.Figures, bool) {
	server := a.server.Load()
	if server == nil {
		return proxy.Figures{}, false
	}
	return server.Figures(), true
}

// scrapes is how many scrapes may run at once.
const scrapes = 4

// metrics serves the series of Leash, of Go and of the process.
func (a *adminPort) metrics(c certificates) http.Handler {
	expiries := make(map[string]func() time.Time)
	for name, source := range map[string]*tlsfiles.Source{"admin": c.admin, "clients": c.clients, "redis": c.redis} {
		if source != nil {
			expiries[name] = source.Expiry
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		metrics.New(metrics.Source{
			Version: config.Version(), Figures: a.figures, Ready: a.ready, Certificates: expiries, AuditDropped: a.audit.Dropped,
		}),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	// Compression would cost more than to send 30 KB.
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true, MaxRequestsInFlight: scrapes})
}
