package limits

import (
	"sync/atomic"
	"time"
)

const (
	// burst is for how long a bucket fills while nothing is taken.
	burst = time.Second
	// share is for how long one Take lasts at the full rate. So a fast client asks the bucket, and
	// sleeps, at most 100 times a second.
	share = 10 * time.Millisecond
	// longest is how long a caller has to wait at most. Beyond that Take refuses.
	longest = time.Second
)

// Bucket is a token bucket. It holds the tokens of a second. Callers that must wait get their
// tokens in the order of their calls. Safe for concurrent use.
type Bucket struct {
	rate  int64        // tokens a second
	spent atomic.Int64 // when all tokens that were taken are there, in ns of time.Since(began)
	began time.Time
}

// NewBucket makes a full bucket with a rate of at least 1 a second.
func NewBucket(rate int64) *Bucket {
	b := &Bucket{rate: rate, began: time.Now()}
	b.spent.Store(-int64(burst))
	return b
}

// Take takes tokens and returns how many, at least one. The caller may use them after wait. It
// returns ok = false, and takes nothing, if the wait would be longer than a second.
func (b *Bucket) Take(now time.Time) (tokens int, wait time.Duration, ok bool) {
	n := max(1, b.rate*int64(share)/int64(time.Second))
	return b.take(now, n)
}

// TakeOne is Take for one token.
func (b *Bucket) TakeOne(now time.Time) (wait time.Duration, ok bool) {
	_, wait, ok = b.take(now, 1)
	return wait, ok
}

func (b *Bucket) take(now time.Time, n int64) (tokens int, wait time.Duration, ok bool) {
	at := int64(now.Sub(b.began))
	for {
		old := b.spent.Load()
		spent := max(old, at-int64(burst)) + n*int64(time.Second)/b.rate
		wait = max(0, time.Duration(spent-at))
		if wait > longest {
			return 0, 0, false
		}
		if b.spent.CompareAndSwap(old, spent) {
			return int(n), wait, true
		}
	}
}
