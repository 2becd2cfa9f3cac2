package collector

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		what string
		heap heap
		want uint64
	}{
		{"little in use", heap{live: 2 * mib, goal: 4 * mib, percent: 50}, 400},
		{"as before", heap{live: 2 * mib, goal: 18 * mib, percent: 400}, 400},
		{"much more than before", heap{live: 16 * mib, goal: 80 * mib, percent: 400}, 100},
		{"much in use", heap{live: 400 * mib, goal: 600 * mib, percent: 50}, 50},
		{"almost nothing in use", heap{live: mib / 8, goal: mib / 4, percent: 50}, maxPercent},
		{"at a memory limit", heap{live: 200 * mib, goal: 190 * mib, percent: 400}, 50},
	} {
		if got := c.heap.percentFor(16*mib, 50); got != c.want {
			t.Errorf("%s: GOGC %d, want %d", c.what, got, c.want)
		}
	}
}

// TestKeepRoom: a process with little in use has room for garbage, one with much has no more than
// without KeepRoom, and then GOGC rises again.
func TestKeepRoom(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	stop := KeepRoom(50)
	defer stop()
	settle := func(what string, ok func(h heap) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
			runtime.GC()
			h := look()
			if ok(h) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, h)
			}
		}
	}
	roomy := func(h heap) bool { return h.goal-h.live > minRoom/10*9 && h.percent > 50 }
	settle("little in use", roomy)
	keep := make([]byte, 4*minHeap)
	settle("much in use", func(h heap) bool { return h.live > 4*minHeap && h.percent == 50 })
	runtime.KeepAlive(keep)
	keep = nil
	settle("little in use again", roomy)
}
