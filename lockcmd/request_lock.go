package lockcmd

import (
	"slices"
	"time"
)

// Requests about one hold go to Redis one at a time, in the order of their numbers. Each hold has a
// request lock for that. It may be held for long. Waiters get it in order of arrival.

// lockRequests takes the request lock. It waits no longer than until and reports whether it has the
// lock.
func (h *hold) lockRequests(until time.Time) bool {
	ready := h.joinRequestQueue()
	if ready == nil {
		return true
	}
	s := h.carrier.service
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for stop := s.redis.Stopped; ; {
		select {
		case <-ready:
			return true
		case <-timer.C:
			return !h.leaveRequestQueue(ready)
		case <-stop:
			stop = nil
			timer.Reset(time.Until(s.redis.CapAtStop(until)))
		}
	}
}

// joinRequestQueue takes the lock and returns nil, or joins the queue. ready is closed when the
// caller has the lock.
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

// leaveRequestQueue leaves the queue. It returns false when the caller has got the lock.
func (h *hold) leaveRequestQueue(ready chan struct{}) bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	i := slices.Index(h.extra.requestQueue, ready)
	if i >= 0 {
		h.extra.requestQueue = slices.Delete(h.extra.requestQueue, i, i+1)
	}
	return i >= 0
}

// unlockRequests gives the lock to the next in the queue.
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
