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
	for _, c := range []struct {
		what string
		heap heap
		past time.Duration
		want bool
	}{
		{"little in use", heap{live: 31 * mib, objects: 62 * mib, goal: 62 * mib}, time.Hour, false},
		{"room left", heap{live: 200 * mib, objects: 262 * mib, goal: 300 * mib}, time.Second, false},
		{"soon full", heap{live: 200 * mib, objects: 263 * mib, goal: 300 * mib}, time.Second, true},
		{"the runtime's turn is near", heap{live: 200 * mib, objects: 200 * mib, goal: 300 * mib}, longest, true},
		{"at a memory limit", heap{live: 200 * mib, objects: 220 * mib, goal: 190 * mib}, time.Hour, false},
		{"GOGC=off", heap{live: 200 * mib, objects: 1 << 40, goal: math.MaxUint64}, time.Second, false},
	} {
		if got := c.heap.due(c.past); got != c.want {
			t.Errorf("%s: due is %v, want %v", c.what, got, c.want)
		}
	}
}

// A process of one thread has more while its garbage is collected, and one again afterwards; it collects before the runtime would.
func TestRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	keep := make([]byte, 2*worthwhile)
	runtime.GC()
	threads, over := make(chan int), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(over)
		run(ctx, 3, func() { threads <- runtime.GOMAXPROCS(0); runtime.GC() })
	}()
	before := look()
	var garbage []byte
	for !look().due(0) {
		garbage = make([]byte, 64<<10)
	}
	runtime.KeepAlive(garbage)
	if now := look(); now.cycles != before.cycles {
		t.Fatalf("%d collections began before it was time", now.cycles-before.cycles)
	}
	select {
	case n := <-threads:
		if n != 3 {
			t.Errorf("garbage is collected with %d threads, want 3", n)
		}
	case <-time.After(time.Minute):
		t.Fatal("garbage is not collected")
	}
	cancel()
	<-over
	if n := runtime.GOMAXPROCS(0); n != 1 {
		t.Errorf("there are %d threads afterwards, want 1", n)
	}
	if now := look(); now.cycles != before.cycles+1 {
		t.Errorf("there were %d collections, want 1", now.cycles-before.cycles)
	}
	runtime.KeepAlive(keep)
}

// Where there are threads enough, the collector is left alone.
func TestRunHasNothingToDo(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(enough))
	run(t.Context(), 64, nil)
}

func BenchmarkLook(b *testing.B) {
	for b.Loop() {
		look()
	}
}
