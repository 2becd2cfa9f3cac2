package load

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPacerCountsFromWhenItWasDue sends three requests a second. The second one takes longer than a
// third of a second.
func TestPacerCountsFromWhenItWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := NewPacer(began.Add(time.Second), time.Second, 4*time.Second)
		var from []time.Duration
		for n := 0; b.Next(t.Context()); n++ {
			from = append(from, b.From.Sub(began))
			if n == 1 {
				time.Sleep(1500 * time.Millisecond)
			}
		}
		want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
		if len(from) != len(want) {
			t.Fatalf("got %v, want %v", from, want)
		}
		for i := range want {
			if from[i] != want[i] {
				t.Errorf("request %d counts from %v, want %v", i, from[i], want[i])
			}
		}
	})
}
