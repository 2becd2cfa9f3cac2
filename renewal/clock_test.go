package renewal

import (
	"testing"
	"time"
	"unsafe"
)

// suspendedSince returns at as it would read if this machine had been suspended for d since then.
// Its wall clock is earlier by d, and its monotonic clock is unchanged.
func suspendedSince(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	before := at
	// The first word of a Time with a monotonic reading has the seconds of the wall clock above 30
	// bits of nanoseconds. Package time cannot make a Time whose two clocks disagree.
	*(*uint64)(unsafe.Pointer(&at)) -= uint64(d/time.Second) << 30
	if wall := before.Round(0).Sub(at.Round(0)); wall != d || before.Sub(at) != 0 {
		t.Fatalf("a Time has another layout by now: its wall clock is behind by %v, want %v", wall, d)
	}
	return at
}

// TestR31SuspendedTimeCounts: The time of a suspend counts. Only the wall clock shows it. A wall
// clock that was set back counts for nothing.
func TestR31SuspendedTimeCounts(t *testing.T) {
	const tolerance = 5 * time.Second // for a machine that stalls
	for _, slept := range []time.Duration{0, time.Minute, time.Hour} {
		start := suspendedSince(t, time.Now(), slept)
		if ahead := clockAheadSince(start); ahead < slept-tolerance || ahead > slept+tolerance {
			t.Errorf("after %v of sleep the wall clock is ahead by %v", slept, ahead)
		}
		until := suspendedSince(t, time.Now().Add(2*time.Hour), slept)
		if left := Left(until); left > 2*time.Hour-slept || left < 2*time.Hour-slept-tolerance {
			t.Errorf("after %v of sleep a hold is safe for %v, want %v", slept, left, 2*time.Hour-slept)
		}
	}
	until := suspendedSince(t, time.Now().Add(2*time.Hour), -time.Hour)
	if left := Left(until); left > 2*time.Hour || left < 2*time.Hour-tolerance {
		t.Errorf("after the clock was set back by an hour a hold is safe for %v, want %v", left, 2*time.Hour)
	}
	if ahead := clockAheadSince(suspendedSince(t, time.Now(), -time.Hour)); ahead > 0 {
		t.Errorf("after the clock was set back it is ahead by %v", ahead)
	}
}
