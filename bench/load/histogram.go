package load

import (
	"math/bits"
	"time"
)

// A Histogram counts durations, exact to 1.6 %. The zero value is empty.
//
// Up to 64 ns, each nanosecond has its own bucket. Above, each power of two is divided into 64.
type Histogram struct {
	counts [64 * 59]uint32
	Total  uint64
}

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucket(d)]++
	h.Total++
}

// bucket is the number of the bucket that d falls into.
func bucket(d time.Duration) int {
	v := uint64(max(0, d))
	shift := max(0, bits.Len64(v)-7)
	return shift*64 + int(v>>shift)
}

// middle is the duration in the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < 128 {
		return time.Duration(bucket)
	}
	shift := bucket/64 - 1
	return time.Duration(uint64(bucket%64+64)<<shift + 1<<(shift-1))
}

// Quantile returns the duration that the share q of all does not exceed; 0 when there is none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rest := int64(q * float64(h.Total))
	for i, n := range h.counts {
		if rest -= int64(n); rest < 0 || rest == 0 && n > 0 {
			return middle(i)
		}
	}
	return 0
}

// Sum is the sum of all durations.
func (h *Histogram) Sum() (sum time.Duration) {
	for i, n := range h.counts {
		sum += time.Duration(n) * middle(i)
	}
	return sum
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.Total += other.Total
}
