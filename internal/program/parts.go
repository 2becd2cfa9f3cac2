package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"leash/internal/audit"
	"leash/internal/config"
	"leash/internal/password"
	"leash/lockcmd"
	"leash/lockcmd/failover"
	"leash/lockcmd/script"
	"leash/proxy"
	"leash/proxy/dial"
	"leash/proxy/pubsub"
	"leash/proxy/rights"
	"leash/proxy/upstream"
)

// passwordSource is where the password of Leash's own user comes from, and what makes it read again
// at SIGHUP. Both are nil if it does not change. Call it before h runs.
func passwordSource(cfg config.Config, h *hangupReader) (p *password.Source, reread <-chan os.Signal) {
	if p = cfg.PasswordSource(); p != nil {
		reread = h.wake()
	}
	return p, reread
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

// newUpstream makes the upstream. It runs --upstream-password-command for the first password.
func newUpstream(cfg config.Config, c certificates, p *password.Source, reread <-chan os.Signal, log *slog.Logger) (*upstream.Upstream, error) {
	if len(cfg.UpstreamPasswordCommand) > 0 {
		text, err := p.First()
		if err != nil {
			return nil, err
		}
		cfg.UpstreamPassword = config.Secret(text)
	}
	return upstream.New(upstreamConfig(cfg, c, p, reread), log)
}

// newLocks makes the lock service. records may be nil.
func newLocks(cfg config.Config, up *upstream.Upstream, exchange *pubsub.Exchange, records *audit.Log,
	log *slog.Logger) *lockcmd.Service {
	locks := lockcmd.New(lockConfig(cfg), up, exchange, log)
	if records != nil {
		locks.AddObserver(records)
	}
	up.OnSwitch(locks.CheckAll)
	up.Nodes.Go("check of own rights", func(ctx context.Context) {
		rights.WarnMissing(ctx, up, script.AllCommands(), log)
	})
	return locks
}

func upstreamConfig(cfg config.Config, c certificates, password *password.Source, reread <-chan os.Signal) upstream.Config {
	if cfg.RedirectTimeout == 0 {
		cfg.RedirectTimeout = -1 // no retries; upstream takes zero for its default
	}
	up := upstream.Config{
		Config: dial.Config{
			User: cfg.UpstreamUser, Password: string(cfg.UpstreamPassword),
			SentinelUser: cfg.SentinelUser, SentinelPassword: string(cfg.SentinelPassword),
			RedirectTimeout: cfg.RedirectTimeout, UpstreamTimeout: cfg.UpstreamTimeout,
		},
		Addrs: cfg.Upstream, Mode: cfg.UpstreamMode, SentinelMaster: cfg.SentinelMaster,
		ReadFrom: cfg.ReadFrom, MaxPinned: cfg.MaxPinned, Wait: cfg.WaitForUpstream,
	}
	if password != nil {
		up.ReadPassword, up.Reread = password.Read, reread
	}
	if sentinels := cfg.SentinelPasswordSource(); sentinels != nil {
		up.ReadSentinelPassword = sentinels.Read
	}
	if cfg.UpstreamTLS {
		up.TLS = c.redis.Config
	}
	if cfg.SentinelTLS {
		up.SentinelTLS = c.sentinels.Config
	}
	return up
}

func lockConfig(cfg config.Config) lockcmd.Config {
	return lockcmd.Config{
		WatchdogTimeout: cfg.WatchdogTimeout, Publish: cfg.LockPublish,
		TokenTTL: cfg.TokenTTL, MaxHold: cfg.MaxHold, MaxHoldOf: holdLimits(cfg), NameHolds: nameHolds(cfg), MaxWaiters: cfg.MaxWaiters, UpstreamTimeout: cfg.UpstreamTimeout,
		FailoverGrace: grace(cfg),
	}
}

// grace translates --failover-grace for package lockcmd.
func grace(cfg config.Config) time.Duration {
	if cfg.FailoverGrace == config.Auto {
		return failover.Auto
	}
	return cfg.FailoverGrace
}

func proxyConfig(cfg config.Config, c certificates) proxy.Config {
	return proxy.Config{
		Settings:  proxySettings(cfg),
		MaxMemory: cfg.MaxMemory, MaintNotifications: cfg.MaintNotifications,
		ProxyProtocol: cfg.ProxyProtocol, TrustClients: cfg.TrustClients, Version: config.Version(), Announce: cfg.Announce,
		RequireAuth: cfg.RequireAuth, ProtectedMode: cfg.ProtectedMode, Deny: cfg.Deny, AllowAdmin: cfg.AllowAdmin,
		UserLimits: cfg.UserLimits(), AddressClients: cfg.LimitAddressClients, AcceptRate: cfg.LimitAccepts,
		LoginTime: cfg.LimitLogin, IdleTime: cfg.LimitIdle,
		Certificates: c.all(), UserOf: c.userOf(),
	}
}

func proxySettings(cfg config.Config) proxy.Settings {
	return proxy.Settings{
		MaxClients: fitOpenFiles(cfg.MaxClients), MaxBulk: cfg.MaxBulk, MaxArgs: cfg.MaxArgs, MaxClientOutput: cfg.MaxClientOutput,
		PeerTimeout: cfg.PeerTimeout, DrainTimeout: cfg.DrainTimeout, OnDisconnect: cfg.OnDisconnect,
		SlowerThan: slowerThan(cfg), SlowLength: cfg.SlowlogMaxLen,
	}
}

// slowerThan is --slowlog-slower-than for package proxy, which takes zero for its default.
func slowerThan(cfg config.Config) time.Duration {
	if cfg.SlowlogSlowerThan == 0 {
		return 1
	}
	return cfg.SlowlogSlowerThan
}

// runParts runs the parts until ctx ends or one of them fails. It returns when all have ended.
func runParts(ctx context.Context, up *upstream.Upstream, locks *lockcmd.Service, exchange *pubsub.Exchange,
	server *proxy.Server, listeners []net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopRedis := background(up.Run, cancel)
	stopLocks := background(locks.Run, cancel)
	stopFleet := announce(ctx, exchange, cancel)
	err := server.Serve(ctx, listeners)
	return errors.Join(err, stopFleet(), stopLocks(), stopRedis())
}
