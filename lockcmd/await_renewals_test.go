package lockcmd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// TestR24RenewalsGoBeforeAcquires: An acquire waits while renewals are late. It waits for half of
// the delay, and for at most 1 s.
func TestR24RenewalsGoBeforeAcquires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Service{watchdog: renewal.New(nil), redis: script.New(nil)}
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
			s.watchdog.Stats.Excess.Store(int64(row.excess))
			began := time.Now()
			s.awaitRenewals(row.ctx)
			if took := time.Since(began); took != row.want {
				t.Errorf("an excess of %v: waited for %v, want %v", row.excess, took, row.want)
			}
		}
	})
}

// TestR24EveryAcquireCommandWaitsForLateRenewals: LOCK.ACQUIRE, LOCK.MACQUIRE and SEM.ACQUIRE wait
// while renewals are late.
func TestR24EveryAcquireCommandWaitsForLateRenewals(t *testing.T) {
	t.Parallel()
	s := idleService(t)
	a := connect(t, s)
	// The watchdog does not run, so nothing resets this value.
	s.watchdog.Stats.Excess.Store(int64(400 * time.Millisecond))
	for _, args := range [][]string{{"LOCK.ACQUIRE", newKey()},
		{"LOCK.MACQUIRE", "2", "{a}" + newKey(), "{a}" + newKey()}, {"SEM.ACQUIRE", newKey()}} {
		began := time.Now()
		if reply := a.do(args...); reply[0] == '-' {
			t.Errorf("%v: got %s", args, reply)
		}
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("%v took %v, want half of the excess", args, took)
		}
	}
}
