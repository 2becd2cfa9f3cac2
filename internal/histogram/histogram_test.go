package histogram

import (
	"slices"
	"sync"
	"testing"
	"time"
)

func TestObserve(t *testing.T) {
	if !slices.IsSorted(Bounds[:]) {
		t.Fatal("the bounds do not rise")
	}
	var h Histogram
	for _, d := range []time.Duration{-time.Second, 0, Bounds[0], Bounds[0] + 1, time.Hour, time.Hour + 1} {
		h.Observe(d)
	}
	got := h.Snapshot()
	var want Snapshot
	want.Counts[0], want.Counts[1], want.Counts[len(Bounds)-1], want.Counts[len(Bounds)] = 3, 1, 1, 1
	want.Sum = 2*Bounds[0] + 1 + 2*time.Hour + 1
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestObserveAtTheSameTime(t *testing.T) {
	var h Histogram
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				h.Observe(time.Millisecond)
				h.Snapshot()
			}
		})
	}
	wg.Wait()
	if s := h.Snapshot(); s.Counts[3] != 8000 || s.Sum != 8*time.Second {
		t.Errorf("got %+v", s)
	}
}
