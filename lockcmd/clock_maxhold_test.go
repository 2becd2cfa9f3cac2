package lockcmd

import (
	"strconv"
	"testing"
	"time"

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
			s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
			a, key := connect(t, s), newKey()
			token := strconv.FormatInt(a.hold(key, m.Option, "LEASE", "7200000", "MAXHOLD", "3600000"), 10)
			step(time.Hour + 50*time.Second)
			// the hold's own Leash does not measure MAXHOLD with Redis's clock
			want(t, a.do("LOCK.EXTEND", key, "60000"), ":60000")
			want(t, connect(t, other).do("LOCK.EXTEND", key, "60000", "TOKEN", token), ":0")
			want(t, connect(t, s).do(append([]string{"LOCK.ACQUIRE", key}, exclusiveOptions(m)...)...), "$-1")
			connect(t, s).token(append([]string{key, "BLOCK", "5000"}, exclusiveOptions(m)...)...)
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
			s, other := leash(t, rdb, Config{}), leash(t, rdb, Config{})
			for _, to := range []*Service{s, other} {
				a, b, key := connect(t, s), connect(t, to), newKey()
				args := []string{"OWNER", "me", "ONCLOSE", "EXPIRE", "MAXHOLD", "60000"}
				token := strconv.FormatInt(a.token(append([]string{key}, args...)...), 10)
				lent := strconv.FormatInt(a.token(key+" lent", "LEASE", "50000", "MAXHOLD", "60000"), 10)
				step(d)
				want(t, b.do("LOCK.ATTACH", key, "OWNER", "me", "TOKEN", token), ":"+token)
				left := b.carrier.last(func(*hold.Hold) bool { return true }).MaxHoldLeft(time.Now())
				if least := time.Minute - max(d, 0); left > time.Minute || left < least-5*time.Second || to == s &&
					left < 55*time.Second {
					t.Errorf("%v are left of a minute", left)
				}
				ms, err := strconv.Atoi(b.do("LOCK.EXTEND", key+" lent", "600000", "TOKEN", lent)[1:])
				if err != nil || ms > 60000 || ms < 30000 || to == s && ms < 55000 {
					t.Errorf("%d ms are left of 60000, %v", ms, err)
				}
				step(-d)
			}
		})
	}
}
