package event_test

import (
	"testing"
	"time"

	"leash/internal/locktest"
)

// TestR24EveryAcquireCommandWaitsForLateRenewals: LOCK.ACQUIRE, LOCK.MACQUIRE and SEM.ACQUIRE wait
// while renewals are late.
func TestR24EveryAcquireCommandWaitsForLateRenewals(t *testing.T) {
	t.Parallel()
	s := locktest.IdleService(t)
	a := locktest.Connect(t, s)
	// The watchdog does not run, so nothing resets this value.
	s.Watchdog.Stats.Excess.Store(int64(400 * time.Millisecond))
	for _, args := range [][]string{{"LOCK.ACQUIRE", locktest.NewKey()},
		{"LOCK.MACQUIRE", "2", "{a}" + locktest.NewKey(), "{a}" + locktest.NewKey()},
		{"SEM.ACQUIRE", locktest.NewKey()}} {
		began := time.Now()
		if reply := a.Do(args...); reply[0] == '-' {
			t.Errorf("%v: got %s", args, reply)
		}
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("%v took %v, want half of the excess", args, took)
		}
	}
}
