package lockcmd

import (
	"slices"
	"time"
)

// The gate of a hold is held by whoever has a request about it under way, so that requests reach
// Redis in the order of their numbers. It may be held for long, and goes from one to the next in
// the order in which they came.

// lockRequests takes the gate, but waits no longer than until.
func (h *hold) lockRequests(until time.Time) bool {
	ready := h.joinRequestQueue()
	if ready == nil {
		return true
	}
	s := h.carrier.service
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for stop := s.stop; ; {
		select {
		case <-ready:
			return true
		case <-timer.C:
			return !h.leaveRequestQueue(ready)
		case <-stop:
			stop = nil
			timer.Reset(time.Until(s.capAtStop(until)))
		}
	}
}

// joinRequestQueue takes the gate, or a place in its line: that is closed when the gate is its holder's.
func (h *hold) joinRequestQueue() (ready chan struct{}) {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	if !h.requestLocked {
		h.requestLocked = true
		return nil
	}
	ready = make(chan struct{})
	h.writeExtra().requestQueue = append(h.writeExtra().requestQueue, ready)
	return ready
}

// leaveRequestQueue gives a place in the line up. It is false when the gate has become its holder's.
func (h *hold) leaveRequestQueue(ready chan struct{}) bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	i := slices.Index(h.extra.requestQueue, ready)
	if i >= 0 {
		h.extra.requestQueue = slices.Delete(h.extra.requestQueue, i, i+1)
	}
	return i >= 0
}

// unlockRequests gives the gate to the next in line.
func (h *hold) unlockRequests() {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	queue := h.readExtra().requestQueue
	if len(queue) == 0 {
		h.requestLocked = false
		return
	}
	next := queue[0]
	h.extra.requestQueue = slices.Delete(queue, 0, 1)
	close(next)
}
