package collector

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// minRoom is how much garbage may come together at least. Half of what is in use is 16 MiB or more
// only in a process with thousands of clients or locks. A process with few collected over twenty
// times a second under load, and that took a tenth of its CPU time when measured.
const minRoom = minHeap / 2

// maxPercent bounds GOGC when almost nothing is in use.
const maxPercent = 1600

// room sets GOGC after each collection.
type room struct {
	percent uint64 // the least GOGC
	stopped atomic.Bool
}

// KeepRoom sets GOGC to percent, or to more as long as that is less than 16 MiB for garbage. It
// adapts GOGC after each collection, on the runtime's own goroutine. After stop, GOGC stays as it
// is. A memory limit still has precedence.
func KeepRoom(percent int) (stop func()) {
	debug.SetGCPercent(percent)
	r := &room{percent: uint64(percent)}
	r.adaptAfterCollection()
	return func() { r.stopped.Store(true) }
}

func (r *room) adaptAfterCollection() {
	garbage := new([64]byte)
	runtime.AddCleanup(garbage, (*room).adapt, r)
}

func (r *room) adapt() {
	if r.stopped.Load() {
		return
	}
	h := look()
	if wanted := h.percentFor(minRoom, r.percent); wanted != h.percent {
		debug.SetGCPercent(int(wanted))
	}
	r.adaptAfterCollection()
}

// percentFor is the GOGC, between least and maxPercent, that leaves this room for garbage.
func (h heap) percentFor(room, least uint64) uint64 {
	if h.goal <= h.live { // at a memory limit
		return least
	}
	return max(min(h.percent*room/(h.goal-h.live), maxPercent), least)
}
