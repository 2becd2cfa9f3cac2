package lockcmd

import (
	"sync"
	"sync/atomic"

	"leash/internal/guard"
)

// endWorkers is how many holds of one connection or one BREAK are ended at the same time.
const endWorkers = 16

// endUnowned releases a grant that belongs to no carrier.
func (s *Service) endUnowned(h *hold) {
	h.state = over // no other goroutine knows h
	rel := s.newReleaseRequest(h, true)
	h.requestLocked = true
	s.spawn(rel.finish)
}

// endAll releases the holds of a connection that is gone, each as soon as its requests are
// unlocked. They are in state releasing or over. done is closed when all have ended.
func (s *Service) endAll(holds []*hold) (done <-chan struct{}) {
	releases := make([]*releaseRequest, len(holds))
	for i, h := range holds {
		releases[i] = s.newReleaseRequest(h, true)
	}
	ended := make(chan struct{})
	s.spawn(func() {
		defer close(ended)
		s.inParallel(len(releases), func(i int) { releases[i].lockAndFinish() })
	})
	return ended
}

// inParallel calls end with every number below n, on up to endWorkers goroutines, and waits for
// them.
func (s *Service) inParallel(n int, end func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(endWorkers, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				_ = guard.Do(s.log, "end of a hold", func() { end(i) })
			}
		})
	}
	workers.Wait()
}

// lockAndFinish waits for the hold's request lock and releases the hold.
func (rel *releaseRequest) lockAndFinish() {
	until := rel.service.deadline()
	if until.Before(rel.until) {
		until = rel.until
	}
	// The request gets its number only now, above that of an undo that had the lock before.
	if rel.hold.lockRequests(until) {
		rel.finish()
	} else {
		rel.hold.forget(releasing)
	}
}
