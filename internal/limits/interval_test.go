package limits

import (
	"sync"
	"testing"
	"time"
)

// TestInterval checks that one of several events at once is allowed, and the next one in time.
func TestInterval(t *testing.T) {
	var d Interval
	var due sync.Map
	var all sync.WaitGroup
	now := time.Now()
	for i := range 10 {
		all.Go(func() {
			if d.Due(now, time.Minute) {
				due.Store(i, true)
			}
		})
	}
	all.Wait()
	n := 0
	due.Range(func(any, any) bool { n++; return true })
	if n != 1 || d.Due(now.Add(59*time.Second), time.Minute) || !d.Due(now.Add(time.Minute), time.Minute) {
		t.Errorf("%d at once, or not in time", n)
	}
}
