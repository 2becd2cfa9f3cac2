// Package collector lets Go's garbage collector have more threads, while it works, than the process has otherwise.
//
// With fewer than four threads (GOMAXPROCS) none is the collector's own: each marks for a quarter of its time, for up to 7 % of what the marking takes at
// a stretch, and looks at no socket meanwhile (the fractional workers of runtime/mgcpacer.go, Go 1.26). With one thread there is nobody else to do so,
// and where the cores are busy marking a million locks takes seconds. Beside those, on two cores that three masters and a busy loop shared, with a
// collection in each measurement of 5 s, p99 of acquires was 219 ms with one thread, 17 with two and 25 with four; 9 without a collection.
package collector

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"
)

const (
	// enough is with how many threads the runtime gives the collector one for itself: a quarter of them.
	enough = 4

	// worthwhile is how much must be in use. Less is marked in a few milliseconds.
	worthwhile = 32 << 20

	// The runtime collects at the latest when so much time has passed (runtime/proc.go, forcegcperiod), and not before seven tenths of the room for
	// garbage are full. Here it is done a little sooner.
	longest = 110 * time.Second
	eighths = 5

	interval = 100 * time.Millisecond
)

// Run collects garbage whenever the runtime would do so soon, with as many threads as help, at most with most of them. It returns when ctx ends, or at
// once when the process has as many already, and is for one goroutine of a process. A collection that the runtime begins by itself nevertheless, where
// garbage comes very fast, is one as usual.
func Run(ctx context.Context, most int) { run(ctx, most, runtime.GC) }

func run(ctx context.Context, most int, collect func()) {
	threads := min(most, enough)
	if runtime.GOMAXPROCS(0) >= threads {
		return
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for last, since := look(), time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		h := look()
		if h.cycles != last.cycles {
			since = time.Now()
		}
		last = h
		if !h.due(time.Since(since)) {
			continue
		}
		usual := runtime.GOMAXPROCS(threads) // it waits for the end of a collection that is under way
		if look().cycles == h.cycles {
			collect()
		}
		runtime.GOMAXPROCS(usual)
	}
}

// heap is how full it is, in bytes.
type heap struct {
	cycles  uint64 // collections that are over
	live    uint64 // what the last one found in use
	objects uint64 // that, and what came since
	goal    uint64 // when a collection is to be over
}

func look() heap {
	samples := [...]metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/goal:bytes"},
	}
	metrics.Read(samples[:])
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()}
}

// due reports whether it is time to collect, when the last collection was so long ago.
func (h heap) due(past time.Duration) bool {
	if h.live < worthwhile || h.goal <= h.live { // the latter at a memory limit, which is the runtime's to keep
		return false
	}
	return past >= longest || h.objects >= h.live+(h.goal-h.live)/8*eighths
}
