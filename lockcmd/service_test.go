package lockcmd_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/linktest"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/script/transport"
)

func TestR31StopWhileRedisIsSilent(t *testing.T) {
	t.Parallel()
	p, err := faultproxy.New(redistest.SharedServer(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	rdb, log := locktest.DialServer(t, p.Addr()), slog.New(slog.DiscardHandler)
	s := locktest.NewService(lockcmd.Config{}, rdb, linktest.Open(t, rdb, log), log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	a := locktest.Connect(t, s)
	for range 100 {
		a.Token(locktest.NewKey())
	}
	p.Freeze()
	a.Carrier.End(lockcmd.Release)
	s.Drain()
	began := time.Now()
	cancel()
	locktest.Receive(t, done, 30*time.Second)
	if took := time.Since(began); took > lockcmd.StopTimeout+transport.MaxAttempt+locktest.Soon {
		t.Errorf("stopped after %v", took)
	}
}

func TestR31StopStillReleases(t *testing.T) {
	t.Parallel()
	rdb := locktest.DialServer(t, redistest.SharedServer(t).Addr)
	log := slog.New(slog.DiscardHandler)
	s := locktest.NewService(lockcmd.Config{}, rdb, linktest.Open(t, rdb, log), log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	a := locktest.Connect(t, s)
	keys := make([]string, 200)
	for i := range keys {
		keys[i] = locktest.NewKey()
		a.Token(keys[i])
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Carrier.End(lockcmd.Release)
	}()
	locktest.Eventually(t, time.Second, "the end has begun", func() bool {
		return a.Carrier.Holds() == 0 && !locktest.Exists(t, rdb, keys[0])
	})
	cancel()
	locktest.Receive(t, done, 5*time.Second)
	locktest.Receive(t, ended, 5*time.Second)
	if n := rdb.Exists(t.Context(), keys...).Val(); n != 0 {
		t.Errorf("%d holds are left behind", n)
	}
}
