// Package collector lets Go collect garbage more rarely in a small process ([KeepRoom]). It also
// gives the process more threads while Go's garbage collector works ([Run]).
//
// With fewer than four threads (GOMAXPROCS), the collector has no thread of its own. Each thread
// then marks for a quarter of its time. It marks for up to 7 % of the whole marking without a
// break, and serves no socket during that time. These are the fractional workers of
// runtime/mgcpacer.go (Go 1.26). If the cores are busy, marking a million locks takes seconds.
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
	// With enough threads, the runtime gives the collector one for itself: a quarter of the
	// threads.
	enough = 4

	// minHeap is how much must be in use. Marking less takes only a few milliseconds.
	minHeap = 32 << 20

	// The runtime collects after forcegcperiod (runtime/proc.go), or when at least seven tenths of
	// the space for garbage are full. This package collects a little sooner. Where there is little
	// garbage, it collects up to half as often again.
	longest = 110 * time.Second
	eighths = 5

	interval     = 100 * time.Millisecond
	idleInterval = time.Second // between checks while too little is in use
)

// Run collects garbage shortly before the runtime would. It uses as many threads as help, but not
// more than the cores that the runtime counts at the start. It returns when ctx ends, or at once if
// the process already has that many threads. Only one goroutine of a process may call it. If
// garbage comes very fast, the runtime may still begin a collection itself, which then runs as
// usual.
//
// It does nothing if the process may have a CPU quota of less than two cores on a machine with
// more. The runtime counts such a quota as two. Marking with two threads would use up the quota,
// and the kernel would then stop the whole process until its next period. Run cannot detect such a
// quota on a machine with two cores.
func Run(ctx context.Context, cores int) {
	if !fewCores(cores, runtime.NumCPU()) {
		run(ctx, cores, runtime.GC)
	}
}

// fewCores reports whether a process that may use this many of a machine's CPUs may have a smaller
// quota.
func fewCores(cores, cpus int) bool { return cores <= 2 && cores < cpus }

func run(ctx context.Context, cores int, collect func()) {
	threads := min(cores, enough)
	if runtime.GOMAXPROCS(0) >= threads {
		return
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	last := look()
	last.allocated = 0 // little is allocated at the start
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
			// collect waits for the end of a collection in progress
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

// heap is the state of the heap, in bytes.
type heap struct {
	at        time.Time
	cycles    uint64 // completed collections
	live      uint64 // what the last one found in use
	goal      uint64 // the size at which a collection is to be complete
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

// due reports whether it is time to collect. last is the heap after the last collection, which was
// past ago. due counts all memory allocated since. How much of it is garbage is only known after
// sweeping.
func (h heap) due(last heap, past time.Duration) bool {
	// The second case is a memory limit, which is left to the runtime.
	if h.live < minHeap || h.goal <= h.live || h.percent == math.MaxUint64 {
		return false
	}
	return past >= longest || h.allocated-last.allocated >= (h.goal-h.live)/8*eighths
}

// maxWait is how long to wait before the next check.
func (h heap) maxWait() time.Duration {
	if h.live < minHeap {
		return idleInterval
	}
	return interval
}
