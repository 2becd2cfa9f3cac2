// Package histogram counts durations in buckets, for metrics.
//
// A [Histogram] is the live count and a [Snapshot] a copy of it. All histograms have the same
// [Bounds], so that one query works for each of them.
package histogram

import (
	"sync/atomic"
	"time"
)

// Bounds are the upper limits of the buckets, in rising order. A last bucket without a limit
// follows. Do not change them.
var Bounds = [...]time.Duration{
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, time.Hour,
}

// Histogram counts durations. The zero value is empty. It is safe for concurrent use, and no method
// blocks.
type Histogram struct {
	counts [len(Bounds) + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

// Observe counts one duration. A negative one counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Snapshot returns a copy. An Observe that runs at the same time may be in the counts and not yet
// in the sum.
func (h *Histogram) Snapshot() Snapshot {
	s := Snapshot{Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		s.Counts[i] = h.counts[i].Load()
	}
	return s
}

// Snapshot is the state of a Histogram at one time.
type Snapshot struct {
	Counts [len(Bounds) + 1]uint64 // durations in each bucket alone; the last one has no limit
	Sum    time.Duration           // of all durations
}
