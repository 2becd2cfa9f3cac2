package collector

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestDue(t *testing.T) {
	const mib = 1 << 20
	last := heap{allocated: 1000 * mib}
	for _, c := range []struct {
		what  string
		heap  heap
		since uint64 // allocated
		past  time.Duration
		want  bool
	}{
		{"little in use", heap{live: 31 * mib, goal: 62 * mib}, 31 * mib, time.Hour, false},
		{"room left", heap{live: 200 * mib, goal: 300 * mib}, 62 * mib, time.Second, false},
		{"soon full", heap{live: 200 * mib, goal: 300 * mib}, 63 * mib, time.Second, true},
		{"the runtime's turn is near", heap{live: 200 * mib, goal: 300 * mib}, 0, longest, true},
		{"at a memory limit", heap{live: 200 * mib, goal: 190 * mib}, 20 * mib, time.Hour, false},
		{"GOGC=off", heap{live: 200 * mib, goal: math.MaxUint64, percent: math.MaxUint64}, 1 << 40, time.Hour, false},
	} {
		c.heap.allocated = last.allocated + c.since
		if got := c.heap.due(last, c.past); got != c.want {
			t.Errorf("%s: due is %v, want %v", c.what, got, c.want)
		}
	}
}

// TestRun: a process of one thread gets more threads while Run collects, and one thread again
// afterwards. It collects once, before the runtime would.
func TestRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	keep := make([]byte, 2*minHeap)
	runtime.GC()
	threads, over := make(chan int), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(over)
		run(ctx, 3, func() { threads <- runtime.GOMAXPROCS(0); runtime.GC() })
	}()
	for range 3 {
		last := look()
		garbage := make([][]byte, 0, 1<<10)
		for h := last; !h.due(last, 0); h = look() {
			garbage = append(garbage, make([]byte, 64<<10))
		}
		if now := look(); now.cycles != last.cycles {
			t.Fatalf("%d collections began too early", now.cycles-last.cycles)
		}
		runtime.KeepAlive(garbage)
		select {
		case n := <-threads:
			if n != 3 {
				t.Errorf("garbage is collected with %d threads, want 3", n)
			}
		case <-time.After(time.Minute):
			t.Fatal("garbage is not collected")
		}
		for runtime.GOMAXPROCS(0) > 1 || look().cycles == last.cycles {
			runtime.Gosched()
		}
		if now := look(); now.cycles != last.cycles+1 {
			t.Errorf("there were %d collections, want 1", now.cycles-last.cycles)
		}
	}
	cancel()
	<-over
	if n := runtime.GOMAXPROCS(0); n != 1 {
		t.Errorf("there are %d threads afterwards, want 1", n)
	}
	runtime.KeepAlive(keep)
}

// TestRunWithThreadsEnough: with enough threads, Run does nothing.
func TestRunWithThreadsEnough(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(enough))
	run(t.Context(), 64, nil)
}

func TestFewCores(t *testing.T) {
	for _, c := range []struct {
		cores, cpus int
		want        bool
	}{{1, 1, false}, {2, 2, false}, {1, 8, true}, {2, 8, true}, {3, 8, false}} {
		if got := fewCores(c.cores, c.cpus); got != c.want {
			t.Errorf("%d of %d: fewCores is %v, want %v", c.cores, c.cpus, got, c.want)
		}
	}
}

func BenchmarkLook(b *testing.B) {
	for b.Loop() {
		look()
	}
}
