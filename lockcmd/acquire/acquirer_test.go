package acquire

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/release"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/renewal"
)

// TestR24RenewalsGoBeforeAcquires: An acquire waits while renewals are late. It waits for half of
// the delay, and for at most 1 s.
func TestR24RenewalsGoBeforeAcquires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holds := hold.NewRegistry(hold.Config{Watchdog: renewal.New(nil)})
		a := &Acquirer{Releaser: &release.Releaser{Restorer: &restore.Restorer{
			Redis: &script.Client{Client: &transport.Client{}}, Holds: holds,
		}}}
		gone, leave := context.WithCancel(t.Context())
		leave()
		for _, row := range []struct {
			ctx          context.Context
			excess, want time.Duration
		}{
			{t.Context(), 0, 0},
			{t.Context(), 800 * time.Millisecond, 400 * time.Millisecond},
			{t.Context(), time.Hour, time.Second},
			{gone, time.Hour, 0},
		} {
			holds.Watchdog.Stats.Excess.Store(int64(row.excess))
			began := time.Now()
			a.awaitRenewals(row.ctx)
			if took := time.Since(began); took != row.want {
				t.Errorf("an excess of %v: waited for %v, want %v", row.excess, took, row.want)
			}
		}
	})
}
