package program

import (
	"fmt"
	"log/slog"
	"time"

	"leash/internal/config"
	"leash/internal/limits"
	"leash/lockcmd"
	"leash/proxy/pubsub"
	"leash/proxy/upstream"
)

// checkAccess checks the flags about users against what Redis can do. It logs who gets in without a
// password. Call it after Redis is connected.
func checkAccess(cfg config.Config, up *upstream.Upstream, log *slog.Logger) error {
	users, password := up.SpeaksRESP3(), up.Dialer.AuthRequired()
	if cfg.TLSUserFrom != "none" && !users {
		return fmt.Errorf("--tls-user-from needs a Redis with users, which is 6.0 or later, but the one at --upstream is %s", up.Version())
	}
	if cfg.RequireAuth && !users && !password {
		return fmt.Errorf("--require-auth needs a Redis with users or a password, but the one at --upstream is %s "+
			"and has no requirepass", up.Version())
	}
	open := cfg.TrustClients || !password && !cfg.RequireAuth
	switch {
	case open && cfg.ServesStrangers() && !cfg.ProtectedMode && cfg.TLSClientCA == "":
		log.Warn("other machines need no password: give --require-auth or --protected-mode")
	case password && !cfg.TrustClients:
		log.Info("redis wants a password: clients must send AUTH, or start Leash with --trust-clients")
	}
	return nil
}

// nameHolds returns what --limit-name-holds says; nil without the flag.
func nameHolds(cfg config.Config) lockcmd.NameHolds {
	if len(cfg.LimitNameHolds) == 0 {
		return nil
	}
	all, _ := limits.ParseNameHolds(cfg.LimitNameHolds, pubsub.Match) // checked by Validate
	return all
}

// holdLimits returns what --limit-hold says of the name of a lock; nil without the flag.
func holdLimits(cfg config.Config) func(key string) time.Duration {
	all := cfg.HoldLimits()
	if len(all) == 0 {
		return nil
	}
	return func(key string) time.Duration { return limits.MaxHold(all, key, pubsub.Match) }
}
