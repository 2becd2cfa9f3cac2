package proxy

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
)

// leastGarbage is the least number of bytes for which Leash starts a collection.
const leastGarbage = 64 << 20

// garbage counts the memory of large values that are not needed any more. The runtime starts a
// collection when the heap has grown by a share of what was in use at the last one. Large values
// count as in use there. So without garbage, several unused values would stay in memory at once.
type garbage struct {
	bytes atomic.Int64
	wake  chan struct{} // size 1
}

// add reports n bytes of new garbage. It does not block.
func (g *garbage) add(n int) {
	if n <= keptBatch || g.bytes.Add(int64(n)) < leastGarbage {
		return
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// collect collects garbage whenever there is enough, until the server has stopped.
func (s *Server) collect() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.garbage.wake:
		}
		if n := s.garbage.bytes.Load(); n >= max(leastGarbage, heapLive()/4) {
			s.garbage.bytes.Add(-n)
			runtime.GC()
		}
	}
}

// heapLive returns how many bytes the last collection found in use.
func heapLive() int64 {
	live := [1]metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live[:])
	return int64(live[0].Value.Uint64())
}
