package lockcmd

import (
	"sync"

	"leash/internal/guard"
)

// endWorkers is how many releases of one connection run at the same time.
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
		s.endEach(releases)
	})
	return ended
}

func (s *Service) endEach(releases []*releaseRequest) {
	requests := make(chan *releaseRequest)
	var workers sync.WaitGroup
	for range min(endWorkers, len(releases)) {
		workers.Go(func() { s.endFrom(requests) })
	}
	for _, rel := range releases {
		requests <- rel
	}
	close(requests)
	workers.Wait()
}

func (s *Service) endFrom(requests <-chan *releaseRequest) {
	for rel := range requests {
		_ = guard.Do(s.log, "end of a hold", rel.lockAndFinish)
	}
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
