package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// aftermath is how long what was broken may still be felt when it is mended: connections are
	// dialed anew, with pauses.
	aftermath = 2 * time.Second
	// stallTick is how often it is looked whether this machine runs, and stallLeast what counts as
	// that it did not.
	stallTick  = 20 * time.Millisecond
	stallLeast = 200 * time.Millisecond
)

// faults knows when something was broken. It is safe for concurrent use.
type faultTimeline struct {
	mu     sync.Mutex
	spells []*faultPeriod
	stalls int
}

// faultPeriod is a time in which something was broken.
type faultPeriod struct {
	name     string
	where    []string // which Leash or node, as far as it is known
	upstream bool     // Redis may not have answered Leash
	crowns   bool     // a master was new by it, or may have been for some Leash
	from, to time.Time
}

// begin says that something is broken from now on, until it is mended.
func (w *faultTimeline) begin(name string, upstream bool) *faultPeriod {
	s := &faultPeriod{name: name, upstream: upstream, from: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spells = append(w.spells, s)
	return s
}

// setPlace says where a spell is.
func (w *faultTimeline) setPlace(s *faultPeriod, where string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.where = append(s.where, where)
}

func (w *faultTimeline) ended(s *faultPeriod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.to = time.Now()
}

// othersDuring reports whether something else was broken at the time of a spell, or had just been
// mended.
func (w *faultTimeline) othersDuring(own *faultPeriod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.spells {
		if s != own && (s.to.IsZero() || s.to.Add(aftermath).After(own.from)) {
			return true
		}
	}
	return false
}

// newMaster says that by a spell a master is new, or may be for a Leash that starts while a clock
// is set back: with a grace nothing is granted there for a while.
func (w *faultTimeline) newMaster(s *faultPeriod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.crowns = true
}

// disturbed is for how long between from and to something was broken, or had just been mended.
func (w *faultTimeline) disturbed(from, to time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return covered(w.disturbedLocked(), from, to)
}

// disturbedOrInGrace is rough with the graces of new masters, in which Leash grants nothing. Leash
// looks at a master before it counts the grace, and can do neither while something is broken: a
// grace is over when the weather was not rough for as long.
func (w *faultTimeline) disturbedOrInGrace(from, to time.Time, grace time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	rough := w.disturbedLocked()
	barred := slices.Clone(rough)
	for _, s := range w.spells {
		if !s.crowns || s.to.IsZero() {
			continue
		}
		over := s.to.Add(grace)
		for was := s.to; over.After(was) && over.Before(to); {
			was, over = over, s.to.Add(grace+covered(rough, s.to, over))
		}
		barred = append(barred, timeSpan{s.to, over})
	}
	slices.SortFunc(barred, func(a, b timeSpan) int { return a.from.Compare(b.from) })
	return covered(barred, from, to)
}

// timeSpan is a time from one moment to another; a zero to is none yet.
type timeSpan struct{ from, to time.Time }

// disturbedLocked are the times in which something was broken, or had just been mended, by their
// beginnings. w.mu is held.
func (w *faultTimeline) disturbedLocked() (all []timeSpan) {
	for _, s := range w.spells {
		r := timeSpan{from: s.from}
		if !s.to.IsZero() {
			r.to = s.to.Add(aftermath)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b timeSpan) int { return a.from.Compare(b.from) })
	return all
}

// covered is how much of the time between from and to lies in one of these stretches, which are in
// the order of their beginnings.
func covered(stretches []timeSpan, from, to time.Time) (sum time.Duration) {
	for _, s := range stretches {
		a, b := later(s.from, from), to
		if !s.to.IsZero() {
			b = earlier(s.to, to)
		}
		if a.Before(b) {
			sum += b.Sub(a)
			from = b
		}
	}
	return sum
}

// answering reports whether Redis answered the Leashes, as far as it was up to us, all the time
// from from to to.
func (w *faultTimeline) answering(from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.spells {
		if s.upstream && s.from.Before(to) && (s.to.IsZero() || s.to.Add(aftermath).After(from)) {
			return false
		}
	}
	return true
}

// slotMoving reports whether the slot of key was being moved at some time between from and to, or
// just had been: then what needs keys that are not all on one node is answered as if the lock were
// taken.
func (w *faultTimeline) slotMoving(key string, from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.spells, func(s *faultPeriod) bool {
		return slices.Contains(s.where, "the slot of "+key) && s.from.Before(to) && (s.to.IsZero() || s.to.Add(aftermath).After(from))
	})
}

// watchStalls notes when this machine, or what else runs on it, does not let us run: what Leash
// does late then is not its fault.
func (w *faultTimeline) watchStalls(ctx context.Context) {
	ticker := time.NewTicker(stallTick)
	defer ticker.Stop()
	for last := time.Now(); ctx.Err() == nil; last = time.Now() {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		if now := time.Now(); now.Sub(last) > stallLeast {
			w.mu.Lock()
			w.stalls++
			w.spells = append(w.spells, &faultPeriod{name: "this machine stalled", upstream: true, from: last, to: now})
			w.mu.Unlock()
		}
	}
}
