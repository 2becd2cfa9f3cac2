package hold

import (
	"slices"
	"time"
)

// Requests about one hold go to Redis one at a time, in the order of their numbers. Each hold has a
// request lock for that. It may be held for long. Waiters get it in order of arrival.

// stopPatience is how long requests may still be sent and answered when this Leash stops.
const stopPatience = time.Second

// LockRequests takes the request lock. It waits no longer than until and reports whether it has the
// lock.
func (h *Hold) LockRequests(until time.Time) bool {
	ready := h.joinRequestQueue()
	if ready == nil {
		return true
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for stop := h.Carrier.registry.Stopped; ; {
		select {
		case <-ready:
			return true
		case <-timer.C:
			return !h.leaveRequestQueue(ready)
		case <-stop:
			stop = nil
			timer.Reset(min(time.Until(until), stopPatience))
		}
	}
}

// TryLockRequests takes the request lock of a hold that is held, if it is free.
func (h *Hold) TryLockRequests() bool {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	if h.requestsLocked || h.state != Held {
		return false
	}
	h.requestsLocked = true
	return true
}

// joinRequestQueue takes the lock and returns nil, or joins the queue. ready is closed when the
// caller has the lock.
func (h *Hold) joinRequestQueue() (ready chan struct{}) {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	if !h.requestsLocked {
		h.requestsLocked = true
		return nil
	}
	ready = make(chan struct{})
	h.writeExtra().requestQueue = append(h.writeExtra().requestQueue, ready)
	return ready
}

// leaveRequestQueue leaves the queue. It returns false when the caller has got the lock.
func (h *Hold) leaveRequestQueue(ready chan struct{}) bool {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	i := slices.Index(h.extra.requestQueue, ready)
	if i >= 0 {
		h.extra.requestQueue = slices.Delete(h.extra.requestQueue, i, i+1)
	}
	return i >= 0
}

// UnlockRequests gives the lock to the next in the queue.
func (h *Hold) UnlockRequests() {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	queue := h.readExtra().requestQueue
	if len(queue) == 0 {
		h.requestsLocked = false
		return
	}
	next := queue[0]
	h.extra.requestQueue = slices.Delete(queue, 0, 1)
	close(next)
}
