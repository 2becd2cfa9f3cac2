package lockcmd_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"leash/internal/linktest"
	"leash/internal/locktest"
	"leash/internal/redistest"
	"leash/lockcmd"
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
	rdb, log := locktest.DialServer(t, redistest.SharedServer(t).Addr), slog.New(stuckLog{slog.DiscardHandler, free})
	s := locktest.NewService(lockcmd.Config{WatchdogTimeout: 9 * time.Second}, rdb, linktest.Open(t, rdb, log), log)
	t.Cleanup(locktest.RunService(s))
	locktest.WaitUntilSubscribed(t, s)
	lost := hold.New(&locktest.Connect(t, s).Carrier.Carrier.Carrier, &hold.Grant{Mode: script.Plain, Number: 1})
	for s.Stats().Unlogged == 0 {
		s.Lost(lost, "gone")
	}
	first, second, kept := locktest.Connect(t, s), locktest.Connect(t, s), locktest.Connect(t, s)
	key1, key2, key3 := locktest.NewKey(), locktest.NewKey(), locktest.NewKey()
	first.Token(key1)
	second.Token(key2)
	kept.Token(key3)
	rdb.Del(t.Context(), key1, key2)
	locktest.Want(t, locktest.Receive(t, first.Losses, time.Second), key1+" gone")
	locktest.Want(t, locktest.Receive(t, second.Losses, time.Second), key2+" gone")
	renewals := s.Stats().Renewals
	locktest.Eventually(t, time.Second, "renewal goes on", func() bool { return s.Stats().Renewals > renewals+1 })
}
