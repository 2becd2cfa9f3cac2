package lockcmd

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// stuckLog is a log handler that blocks until it is released.
type stuckLog struct {
	slog.Handler
	free chan struct{}
}

func (l stuckLog) Handle(context.Context, slog.Record) error {
	<-l.free
	return nil
}

func TestR27SlowLogDoesNotDelayALoss(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	t.Cleanup(func() { close(free) })
	stuck := func(s *Service) { s.losses.log = slog.New(stuckLog{s.log.Handler(), free}) }
	rdb := dialServer(t, sharedServer(t).Addr)
	s := leash(t, rdb, Config{WatchdogTimeout: 3 * time.Second}, stuck)
	for range maxLosses + 3 { // the log handler holds one more
		c := &connect(t, s).carrier.Carrier.Carrier
		afterwards{s}.Lost(hold.New(c, &hold.Grant{Mode: script.Plain, Number: 1}), "gone")
	}
	if n := s.Stats().Unlogged; n < 1 || n > 3 {
		t.Errorf("got %d losses that are not in the log, want 2", n)
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
