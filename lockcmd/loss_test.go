package lockcmd

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// stuckLog is a log handler that blocks at a loss until it is released.
type stuckLog struct {
	slog.Handler
	free chan struct{}
}

func (l stuckLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "lock lost" {
		<-l.free
	}
	return nil
}

func TestR27SlowLogDoesNotDelayALoss(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	t.Cleanup(func() { close(free) })
	rdb, log := dialServer(t, sharedServer(t).Addr), slog.New(stuckLog{slog.DiscardHandler, free})
	s := New(Config{WatchdogTimeout: 9 * time.Second}, rdb, proxySubscriber(t, rdb, log), log)
	t.Cleanup(runService(s))
	waitUntilSubscribed(t, s)
	lost := hold.New(&connect(t, s).carrier.Carrier.Carrier, &hold.Grant{Mode: script.Plain, Number: 1})
	for s.Stats().Unlogged == 0 {
		afterwards{s}.Lost(lost, "gone")
	}
	first, second, kept := connect(t, s), connect(t, s), connect(t, s)
	key1, key2, key3 := newKey(), newKey(), newKey()
	first.token(key1)
	second.token(key2)
	kept.token(key3)
	rdb.Del(t.Context(), key1, key2)
	want(t, receive(t, first.losses, time.Second), key1+" gone")
	want(t, receive(t, second.losses, time.Second), key2+" gone")
	renewals := s.Stats().Renewals
	eventually(t, time.Second, "renewal goes on", func() bool { return s.Stats().Renewals > renewals+1 })
}
