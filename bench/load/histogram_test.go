package load

import (
	"math"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	last := -1
	for v := time.Duration(0); v < math.MaxInt64/2; v += 1 + v/200 {
		n := bucket(v)
		if n < last || n > last+1 {
			t.Fatalf("%d is in bucket %d, after bucket %d", v, n, last)
		}
		last = n
		if off := math.Abs(float64(middle(n) - v)); off > float64(v)/64 {
			t.Fatalf("%d is in a bucket of %d", v, middle(n))
		}
	}
	for _, v := range []time.Duration{-1, 0, 1, math.MaxInt64} {
		var h Histogram
		h.Add(v)
		if got := h.Quantile(0.5); got < 0 || v > 0 && math.Abs(float64(got-v)) > float64(v)/64 {
			t.Errorf("%d alone: got a median of %d", v, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	var h Histogram
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("empty: got %v", got)
	}
	for i := range 1000 {
		h.Add(time.Duration(i+1) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{
		0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond, 1: 1000 * time.Microsecond,
	} {
		if got := h.Quantile(q); (got - want).Abs() > want/50 {
			t.Errorf("%v: got %v, want %v", q, got, want)
		}
	}
}

func TestHistogramMerge(t *testing.T) {
	var a, b Histogram
	a.Add(time.Millisecond)
	b.Add(time.Second)
	b.Add(time.Second)
	a.Merge(&b)
	if got := a.Quantile(0.9).Seconds(); a.Total != 3 || math.Abs(got-1) > 0.02 {
		t.Errorf("got %v s as the quantile of %d, want 1 of 3", got, a.Total)
	}
}
