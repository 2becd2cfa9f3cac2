// Package collector gives the process more threads while Go's garbage collector works.
//
// With fewer than four threads (GOMAXPROCS), the collector has none of its own. Each thread then
// marks for a quarter of its time, for up to 7 % of the whole marking without a break, and serves
// no socket meanwhile. These are the fractional workers of runtime/mgcpacer.go (Go 1.26). If the
// cores are busy, marking a million locks takes seconds.
//
// Measured with a million locks, on two cores that three Redis masters and a busy loop shared, with
// a collection in each measurement of 5 s, p99 of acquires was:
//
//	one thread      219 ms
//	two threads      17 ms
//	four threads     25 ms
//	no collection     9 ms
package collector

import (
	"context"
	"math"
	"runtime"
	"runtime/metrics"
	"time"
)

const (
	// enough is with how many threads the runtime gives the collector one for itself: a quarter of
	// them.
	enough = 4

	// worthwhile is how much must be in use. Less is marked in a few milliseconds.
	worthwhile = 32 << 20

	// The runtime collects at the latest when so much time has passed (runtime/proc.go,
	// forcegcperiod), and not before seven tenths of the room for garbage are full. Here it is done
	// a little sooner: half as often again where there is little garbage.
	longest = 110 * time.Second
	eighths = 5

	interval = 100 * time.Millisecond
	rarely   = time.Second // while too little is in use
)

// Run collects garbage whenever the runtime would do so soon, with as many threads as help, at most
// with one for each of the cores that the process may use, as the runtime counts them at the start.
// It returns when ctx ends, or at once when the process has as many already, and is for one
// goroutine of a process. A collection that the runtime begins by itself nevertheless, where
// garbage comes very fast, is one as usual.
//
// It does nothing where there may be a quota of less than two of a machine's many cores, which the
// runtime takes for two: marking with two would use that up, and the kernel then stops the whole
// process until its next period. Such a quota on a machine of two cores it does not see.
func Run(ctx context.Context, cores int) {
	if !fewCores(cores, runtime.NumCPU()) {
		run(ctx, cores, runtime.GC)
	}
}

// fewCores reports whether a process that may use so many of a machine's CPUs may have a quota of
// less.
func fewCores(cores, cpus int) bool { return cores <= 2 && cores < cpus }

func run(ctx context.Context, cores int, collect func()) {
	threads := min(cores, enough)
	if runtime.GOMAXPROCS(0) >= threads {
		return
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	last := look()
	last.allocated = 0 // at the start there is little
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		h := look()
		if h.cycles != last.cycles {
			last = h
		}
		if h.due(last, time.Since(last.at)) {
			// it waits for the end of a collection that is under way
			usual := runtime.GOMAXPROCS(threads)
			if look().cycles == h.cycles {
				collect()
				last = look()
			}
			runtime.GOMAXPROCS(usual)
		}
		timer.Reset(h.maxWait())
	}
}

// heap is how full it is, in bytes.
type heap struct {
	at        time.Time
	cycles    uint64 // collections that are over
	live      uint64 // what the last one found in use
	goal      uint64 // when a collection is to be over
	allocated uint64 // ever
	percent   uint64 // GOGC; the largest number when it is off
}

func look() heap {
	samples := [...]metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/heap/goal:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/gogc:percent"},
	}
	metrics.Read(samples[:])
	n := func(i int) uint64 { return samples[i].Value.Uint64() }
	return heap{at: time.Now(), cycles: n(0), live: n(1), goal: n(2), allocated: n(3), percent: n(4)}
}

// due reports whether it is time to collect, as the heap was after the last collection and so long
// ago. What has been allocated since is counted, for what is garbage is known only when all has
// been swept.
func (h heap) due(last heap, past time.Duration) bool {
	// the second at a memory limit, which is the runtime's to keep
	if h.live < worthwhile || h.goal <= h.live || h.percent == math.MaxUint64 {
		return false
	}
	return past >= longest || h.allocated-last.allocated >= (h.goal-h.live)/8*eighths
}

// maxWait is until when to look again.
func (h heap) maxWait() time.Duration {
	if h.live < worthwhile {
		return rarely
	}
	return interval
}
