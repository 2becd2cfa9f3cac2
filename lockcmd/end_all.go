package lockcmd

import (
	"slices"
	"sync"
	"time"
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

// endAll ends the holds of a connection that is gone, when their gates are open. They are in state releasing, or over. done is closed
// when each has ended.
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

// endAtLimit ends holds that are left to run out, and that nobody keeps any more, when their MAXHOLD is over before that: for longer nobody believes
// in them, and their client has agreed to it (R28). What their owner has taken over elsewhere meanwhile hangs on another carrier, and stays. Each
// has a request at that time, and no goroutine until then.
func (s *Service) endAtLimit(holds []*hold) {
	type limited struct {
		hold *hold
		at   time.Time
	}
	var left []limited
	for _, h := range holds {
		h.carrier.mu.Lock()
		if limit := h.rare().limit; !limit.IsZero() && time.Until(limit) < h.ttl {
			left = append(left, limited{h, limit})
		}
		h.carrier.mu.Unlock()
	}
	if len(left) == 0 {
		return
	}
	slices.SortFunc(left, func(a, b limited) int { return a.at.Compare(b.at) })
	s.spawn(func() {
		for len(left) > 0 && !s.stopped(time.Until(left[0].at)) {
			var due []*hold
			for now := time.Now(); len(left) > 0 && !left[0].at.After(now); left = left[1:] {
				due = append(due, left[0].hold)
			}
			s.endAll(due)
		}
	})
}

func (s *Service) endEach(endings []*ending) {
	line := make(chan *ending)
	var workers sync.WaitGroup
	for range min(endWorkers, len(endings)) {
		workers.Go(func() { endFrom(line) })
	}
	for _, e := range endings {
		line <- e
	}
	close(line)
	workers.Wait()
}

func endFrom(line <-chan *ending) {
	for e := range line {
		until := e.service.deadline()
		if until.Before(e.until) {
			until = e.until
		}
		if e.hold.open(until) { // and only now it gets its number: above that of an undo which had the gate
			e.finish()
		} else {
			e.hold.forget(releasing)
		}
	}
}
