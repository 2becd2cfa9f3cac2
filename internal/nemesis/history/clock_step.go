package history

import (
	"slices"
	"time"
)

// clockStep is a step of the clock by which some locks expire. It happened between from and to.
type clockStep struct {
	keys     []string
	by       time.Duration // negative for a step back
	from, to int64         // ns since the start
}

// BeginStep notes that the clock of some locks is about to be stepped. Call done with false if it
// was not stepped.
func (h *History) BeginStep(keys []string, by time.Duration) (done func(bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &clockStep{keys: keys, by: by, from: h.At(time.Now()), to: Never}
	h.steps = append(h.steps, j)
	return func(stepped bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		j.to = h.At(time.Now())
		if !stepped {
			j.by = 0
		}
	}
}

// stepsLocked returns the steps of a lock's clock between two times. h.mu must be held.
func (h *History) stepsLocked(key string, from, to int64) (steps []*clockStep) {
	for _, j := range h.steps {
		if from <= j.to && j.from <= to && slices.Contains(j.keys, key) {
			steps = append(steps, j)
		}
	}
	return steps
}

// shortenedBy returns by how much the steps may have shortened a lock whose end was set before or
// between them. since is the beginning of the first step forward.
func shortenedBy(steps []*clockStep) (by time.Duration, since int64) {
	var ahead, least time.Duration
	since = Never
	for _, j := range steps {
		if j.by > 0 {
			since = min(since, j.from)
		}
		ahead += j.by
		least = min(least, ahead)
		by = max(by, ahead-least)
	}
	return by, since
}

// lengthenedBy returns by how much the steps may have lengthened a lock whose end was set before or
// between them.
func lengthenedBy(steps []*clockStep) time.Duration {
	var ahead, most time.Duration
	for _, j := range steps {
		ahead += j.by
		most = max(most, ahead)
	}
	return most - ahead
}

// Lengthened returns by how much steps back may lengthen a lock whose end was set after from. It
// counts the steps until at.
func (h *History) Lengthened(key string, from, at time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return lengthenedBy(h.stepsLocked(key, h.At(from), h.At(at)))
}

// SmallStep is a step that is within the margin that Leash takes off the shortest lease
// (renewal.Until). Such a step explains no error.
const SmallStep = 20 * time.Millisecond
