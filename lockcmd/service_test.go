package lockcmd

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/lockcmd/script/transport"
)

func TestR31StopWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	p, err := faultproxy.New(sharedServer(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	rdb, log := dialServer(t, p.Addr()), slog.New(slog.DiscardHandler)
	s := New(Config{}, rdb, proxySubscriber(t, rdb, log), log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	a := connect(t, s)
	for range 100 {
		a.token(newKey())
	}
	p.Freeze()
	a.carrier.End(Release)
	s.Drain()
	began := time.Now()
	cancel()
	receive(t, done, 30*time.Second)
	if took := time.Since(began); took > stopTimeout+transport.MaxAttempt+soon {
		t.Errorf("stopped after %v", took)
	}
}

func TestR31StopStillReleases(t *testing.T) {
	t.Parallel()
	rdb := dialServer(t, sharedServer(t).Addr)
	log := slog.New(slog.DiscardHandler)
	s := New(Config{}, rdb, proxySubscriber(t, rdb, log), log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	a := connect(t, s)
	keys := make([]string, 200)
	for i := range keys {
		keys[i] = newKey()
		a.token(keys[i])
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.carrier.End(Release)
	}()
	eventually(t, time.Second, "the end has begun", func() bool {
		return a.carrier.Holds() == 0 && !exists(t, rdb, keys[0])
	})
	cancel()
	receive(t, done, 5*time.Second)
	receive(t, ended, 5*time.Second)
	if n := rdb.Exists(t.Context(), keys...).Val(); n != 0 {
		t.Errorf("%d holds are left behind", n)
	}
}
