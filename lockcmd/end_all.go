package lockcmd

import (
	"sync"

	"leash/internal/guard"
)

// endWorkers is how many releases of one connection are under way at once.
const endWorkers = 16

// endUnowned ends a grant that is no hold of anybody's.
func (s *Service) endUnowned(h *hold) {
	h.state = over // nobody else knows it
	rel := s.newReleaseRequest(h, true)
	h.requestLocked = true
	s.spawn(rel.finish)
}

// endAll ends the holds of a connection that is gone, when their gates are open. They are in state
// releasing, or over. done is closed when each has ended.
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

// lockAndFinish waits for the hold's gate and ends it.
func (rel *releaseRequest) lockAndFinish() {
	until := rel.service.deadline()
	if until.Before(rel.until) {
		until = rel.until
	}
	// and only now it gets its number: above that of an undo which had the gate
	if rel.hold.lockRequests(until) {
		rel.finish()
	} else {
		rel.hold.forget(releasing)
	}
}
