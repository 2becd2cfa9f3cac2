package lockcmd

import (
	"slices"
	"time"
)

// The gate of a hold is held by whoever has a request about it under way, so that requests reach
// Redis in the order of their numbers. It may be held for long, and goes from one to the next in
// the order in which they came.

// open takes the gate, but waits no longer than until.
func (h *hold) open(until time.Time) bool {
	turn := h.queueUp()
	if turn == nil {
		return true
	}
	s := h.carrier.service
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for stop := s.stop; ; {
		select {
		case <-turn:
			return true
		case <-timer.C:
			return !h.leaveQueue(turn)
		case <-stop:
			stop = nil
			timer.Reset(time.Until(s.within(until)))
		}
	}
}

// queueUp takes the gate, or a place in its line: that is closed when the gate is its holder's.
func (h *hold) queueUp() (turn chan struct{}) {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if !h.busy {
		h.busy = true
		return nil
	}
	turn = make(chan struct{})
	h.more().line = append(h.more().line, turn)
	return turn
}

// leaveQueue gives a place in the line up. It is false when the gate has become its holder's.
func (h *hold) leaveQueue(turn chan struct{}) bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	i := slices.Index(h.extra.line, turn)
	if i >= 0 {
		h.extra.line = slices.Delete(h.extra.line, i, i+1)
	}
	return i >= 0
}

// close gives the gate to the next in line.
func (h *hold) close() {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	line := h.rare().line
	if len(line) == 0 {
		h.busy = false
		return
	}
	next := line[0]
	h.extra.line = slices.Delete(line, 0, 1)
	close(next)
}
