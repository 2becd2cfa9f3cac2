package lockcmd

import (
	"sync"

	"leash/internal/guard"
)

// endWorkers is how many releases of one connection are under way at once.
const endWorkers = 16

// endLoose ends a grant that is no hold of anybody's.
func (s *Service) endLoose(h *hold) {
	h.state = over // nobody else knows it
	e := s.newEnding(h, true)
	h.busy = true
	s.spawn(e.finish)
}

// endAll ends the holds of a connection that is gone, when their gates are open. They are in state
// releasing, or over. done is closed when each has ended.
func (s *Service) endAll(holds []*hold) (done <-chan struct{}) {
	endings := make([]*ending, len(holds))
	for i, h := range holds {
		endings[i] = s.newEnding(h, true)
	}
	ended := make(chan struct{})
	s.spawn(func() {
		defer close(ended)
		s.endEach(endings)
	})
	return ended
}

func (s *Service) endEach(endings []*ending) {
	line := make(chan *ending)
	var workers sync.WaitGroup
	for range min(endWorkers, len(endings)) {
		workers.Go(func() { s.endFrom(line) })
	}
	for _, e := range endings {
		line <- e
	}
	close(line)
	workers.Wait()
}

func (s *Service) endFrom(line <-chan *ending) {
	for e := range line {
		_ = guard.Do(s.log, "end of a hold", e.finishInTurn)
	}
}

// finishInTurn waits for the hold's gate and ends it.
func (e *ending) finishInTurn() {
	until := e.service.deadline()
	if until.Before(e.until) {
		until = e.until
	}
	// and only now it gets its number: above that of an undo which had the gate
	if e.hold.open(until) {
		e.finish()
	} else {
		e.hold.forget(releasing)
	}
}
