// Package linktest opens Leash's own links to the Redis of a test.
package linktest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/proxy/dial"
	"leash/proxy/upstream"
)

// Open returns the proxy's upstream for the Redis of rdb, with the same credential. It ends with
// the test. Without a log it logs nothing.
func Open(t testing.TB, rdb redis.UniversalClient, log *slog.Logger) *upstream.Upstream {
	t.Helper()
	var cfg upstream.Config
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		cfg.Addrs, cfg.Config = c.Options().Addrs, credential(c.Options().Username, c.Options().Password)
	case *redis.Client:
		cfg.Addrs, cfg.Config = []string{c.Options().Addr}, credential(c.Options().Username, c.Options().Password)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	up, end, err := open(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return up
}

func credential(user, password string) dial.Config {
	return dial.Config{User: user, Password: password}
}

// Dial is Open for an address. The caller calls end, which waits.
func Dial(addr string) (up *upstream.Upstream, end func(), err error) {
	return open(upstream.Config{Addrs: []string{addr}}, slog.New(slog.DiscardHandler))
}

func open(cfg upstream.Config, log *slog.Logger) (up *upstream.Upstream, end func(), err error) {
	cfg.Wait = time.Minute
	if up, err = upstream.New(cfg, log); err != nil {
		return nil, nil, err
	}
	if err = up.Connect(context.Background()); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = up.Run(ctx)
	}()
	return up, func() { cancel(); <-ended }, nil
}
