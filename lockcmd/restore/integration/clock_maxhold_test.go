package restore_test

import (
	"strconv"
	"testing"
	"time"

	"leash/internal/locktest"
	"leash/lockcmd"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
)

// TestR12ExtendIsNeverNegative: By Redis's clock, MAXHOLD ended long ago. EXTEND through another
// Leash returns 0, and the lock ends shortly after.
func TestR12ExtendIsNeverNegative(t *testing.T) {
	t.Parallel()
	for _, m := range script.Modes {
		t.Run(m.Option, func(t *testing.T) {
			rdb, step := startWithClock(t)
			s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
			a, key := locktest.Connect(t, s), locktest.NewKey()
			token := strconv.FormatInt(a.Hold(key, m.Option, "LEASE", "7200000", "MAXHOLD", "3600000"), 10)
			step(time.Hour + 50*time.Second)
			// the hold's own Leash does not measure MAXHOLD with Redis's clock
			locktest.Want(t, a.Do("LOCK.EXTEND", key, "60000"), ":60000")
			locktest.Want(t, locktest.Connect(t, other).Do("LOCK.EXTEND", key, "60000", "TOKEN", token), ":0")
			locktest.Want(t, locktest.Connect(t, s).Do(append([]string{"LOCK.ACQUIRE", key},
				locktest.ExclusiveOptions(m)...)...), "$-1")
			locktest.Connect(t, s).Token(append([]string{key, "BLOCK", "5000"}, locktest.ExclusiveOptions(m)...)...)
		})
	}
}

// TestR28MaxHoldIgnoresClockSteps: A step of Redis's clock, in either direction, does not lengthen
// MAXHOLD when a hold is moved or extended. On the hold's own Leash it does not shorten it either.
func TestR28MaxHoldIgnoresClockSteps(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{-time.Hour, 25 * time.Second} {
		t.Run(d.String(), func(t *testing.T) {
			rdb, step := startWithClock(t)
			s, other := locktest.Start(t, rdb, lockcmd.Config{}), locktest.Start(t, rdb, lockcmd.Config{})
			for _, to := range []*lockcmd.Service{s, other} {
				a, b, key := locktest.Connect(t, s), locktest.Connect(t, to), locktest.NewKey()
				args := []string{"OWNER", "me", "ONCLOSE", "EXPIRE", "MAXHOLD", "60000"}
				token := strconv.FormatInt(a.Token(append([]string{key}, args...)...), 10)
				lent := strconv.FormatInt(a.Token(key+" lent", "LEASE", "50000", "MAXHOLD", "60000"), 10)
				step(d)
				locktest.Want(t, b.Do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token), ":"+token)
				left := b.Last(func(*hold.Hold) bool { return true }).MaxHoldLeft(time.Now())
				if least := time.Minute - max(d, 0); left > time.Minute || left < least-5*time.Second || to == s &&
					left < 55*time.Second {
					t.Errorf("%v are left of a minute", left)
				}
				ms, err := strconv.Atoi(b.Do("LOCK.EXTEND", key+" lent", "600000", "TOKEN", lent)[1:])
				if err != nil || ms > 60000 || ms < 30000 || to == s && ms < 55000 {
					t.Errorf("%d ms are left of 60000, %v", ms, err)
				}
				step(-d)
			}
		})
	}
}
