package renewal

import (
	"testing"
	"time"
	"unsafe"
)

// asleep is t as it would be if this machine had been suspended for d since: the wall clock said
// less then, the monotonic one what it says of t.
func asleep(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	before := at
	// The first word of a Time with a monotonic reading has the seconds of the wall clock above 30
	// bits of nanoseconds. There is no way in package time to have a Time whose clocks disagree.
	*(*uint64)(unsafe.Pointer(&at)) -= uint64(d/time.Second) << 30
	if wall := before.Round(0).Sub(at.Round(0)); wall != d || before.Sub(at) != 0 {
		t.Fatalf("a Time has another layout by now: its wall clock is behind by %v, want %v", wall, d)
	}
	return at
}

// TestR31TheTimeSleptThroughCounts by the wall clock, which alone went on; one that was set back
// counts for nothing.
func TestR31TheTimeSleptThroughCounts(t *testing.T) {
	const tolerance = 5 * time.Second // of a machine that stalls
	for _, slept := range []time.Duration{0, time.Minute, time.Hour} {
		start := asleep(t, time.Now(), slept)
		if ahead := clockAheadSince(start); ahead < slept-tolerance || ahead > slept+tolerance {
			t.Errorf("after %v of sleep the wall clock is ahead by %v", slept, ahead)
		}
		until := asleep(t, time.Now().Add(2*time.Hour), slept)
		if left := Left(until); left > 2*time.Hour-slept || left < 2*time.Hour-slept-tolerance {
			t.Errorf("after %v of sleep a hold is safe for %v, want %v", slept, left, 2*time.Hour-slept)
		}
	}
	until := asleep(t, time.Now().Add(2*time.Hour), -time.Hour)
	if left := Left(until); left > 2*time.Hour || left < 2*time.Hour-tolerance {
		t.Errorf("after the clock was set back by an hour a hold is safe for %v, want %v", left, 2*time.Hour)
	}
	if ahead := clockAheadSince(asleep(t, time.Now(), -time.Hour)); ahead > 0 {
		t.Errorf("after the clock was set back it is ahead by %v", ahead)
	}
}
