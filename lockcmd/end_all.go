package lockcmd

import (
	"sync"
	"sync/atomic"

	"leash/internal/guard"
	"leash/lockcmd/hold"
)

// endWorkers is how many holds of one connection or one BREAK are ended at the same time.
const endWorkers = 16

// endAll sends releases of holds that nobody relies on, each as soon as the requests of its hold
// are unlocked. done is closed when all have ended.
func (s *Service) endAll(releases []*releaseRequest) (done <-chan struct{}) {
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
	if rel.hold.LockRequests(until) {
		rel.finish()
	} else {
		rel.hold.Apply(hold.Ended)
	}
}
