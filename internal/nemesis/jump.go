package main

import (
	"slices"
	"time"
)

// jump is a step of the clock by which some locks expire, at some time in a span.
type jump struct {
	keys     []string
	by       time.Duration // forward; back below 0
	from, to int64         // ns since the start
}

// jump notes that the clock of some locks will be stepped by so much, until done is called; and
// then whether it was.
func (h *history) jump(keys []string, by time.Duration) (done func(bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &jump{keys: keys, by: by, from: h.at(time.Now()), to: never}
	h.jumps = append(h.jumps, j)
	return func(stepped bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		j.to = h.at(time.Now())
		if !stepped {
			j.by = 0
		}
	}
}

// jumpsLocked are those of a lock's clock between two times. h.mu is held.
func (h *history) jumpsLocked(key string, from, to int64) (jumps []*jump) {
	for _, j := range h.jumps {
		if from <= j.to && j.from <= to && slices.Contains(j.keys, key) {
			jumps = append(jumps, j)
		}
	}
	return jumps
}

// shorter is by how much less time a lock may have lasted that was told how long to last between
// two times, as its clock was stepped forward then, and since when.
func shorter(jumps []*jump) (by time.Duration, since int64) {
	var ahead, least time.Duration
	since = never
	for _, j := range jumps {
		if j.by > 0 {
			since = min(since, j.from)
		}
		ahead += j.by
		least = min(least, ahead)
		by = max(by, ahead-least)
	}
	return by, since
}

// longer is by how much more time a lock may last that was told how long to last when its clock was
// ahead of what it is after these jumps.
func longer(jumps []*jump) time.Duration {
	var ahead, most time.Duration
	for _, j := range jumps {
		ahead += j.by
		most = max(most, ahead)
	}
	return most - ahead
}

// lengthened is by how much longer what Redis was told of a lock, from a time on, may last yet at
// another, since its clock was stepped back.
func (h *history) lengthened(key string, from, at time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return longer(h.jumpsLocked(key, h.at(from), h.at(at)))
}
