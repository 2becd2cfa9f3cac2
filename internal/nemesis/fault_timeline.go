package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// recoveryTime is how long a fault may still have effects after its end. Leash dials its
	// connections again, with pauses.
	recoveryTime  = 2 * time.Second
	stallInterval = 20 * time.Millisecond  // how often watchStalls looks at the clock
	minStall      = 200 * time.Millisecond // a longer time between two looks is a stall
)

// faultTimeline records when something was broken. It is safe for concurrent use.
type faultTimeline struct {
	mu      sync.Mutex
	periods []*faultPeriod
	stalls  int // how often this machine stalled
}

// faultPeriod is a time in which something was broken.
type faultPeriod struct {
	name      string
	places    []string // the Leash, the node or the slot, if it is known
	upstream  bool     // Redis may not have answered Leash
	newMaster bool     // it made a replica the master, or a Leash may have taken a master for new
	from, to  time.Time
}

// begin notes that something is broken from now on, until ended is called.
func (w *faultTimeline) begin(name string, upstream bool) *faultPeriod {
	s := &faultPeriod{name: name, upstream: upstream, from: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.periods = append(w.periods, s)
	return s
}

// setPlace adds a place to a fault period.
func (w *faultTimeline) setPlace(s *faultPeriod, where string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.places = append(s.places, where)
}

// ended notes that a fault is over.
func (w *faultTimeline) ended(s *faultPeriod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.to = time.Now()
}

// othersDuring reports whether there was another fault during own, or one that ended just before.
func (w *faultTimeline) othersDuring(own *faultPeriod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.periods {
		if s != own && (s.to.IsZero() || s.to.Add(recoveryTime).After(own.from)) {
			return true
		}
	}
	return false
}

// newMaster notes that a fault made a replica the master. It is also for a Leash that starts while
// a clock is set back, because that Leash may take a master for new. With a grace period, Leash
// grants nothing at such a master for a while.
func (w *faultTimeline) newMaster(s *faultPeriod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.newMaster = true
}

// disturbed returns for how long between from and to there was a fault, or one had just ended.
func (w *faultTimeline) disturbed(from, to time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return covered(w.disturbedLocked(), from, to)
}

// disturbedOrInGrace is like disturbed, but adds the grace periods of new masters, in which Leash
// grants nothing. Leash must reach a master before the grace period begins, and during it. So time
// with faults does not count towards a grace period.
func (w *faultTimeline) disturbedOrInGrace(from, to time.Time, grace time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	disturbed := w.disturbedLocked()
	excluded := slices.Clone(disturbed)
	for _, s := range w.periods {
		if !s.newMaster || s.to.IsZero() {
			continue
		}
		end := s.to.Add(grace)
		for before := s.to; end.After(before) && end.Before(to); {
			before, end = end, s.to.Add(grace+covered(disturbed, s.to, end))
		}
		excluded = append(excluded, timeSpan{s.to, end})
	}
	slices.SortFunc(excluded, func(a, b timeSpan) int { return a.from.Compare(b.from) })
	return covered(excluded, from, to)
}

// timeSpan is the time between from and to. It has no end yet if to is zero.
type timeSpan struct{ from, to time.Time }

// disturbedLocked returns the times in which there was a fault, or one had just ended. They are in
// the order of their beginnings. w.mu must be held.
func (w *faultTimeline) disturbedLocked() (all []timeSpan) {
	for _, s := range w.periods {
		r := timeSpan{from: s.from}
		if !s.to.IsZero() {
			r.to = s.to.Add(recoveryTime)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b timeSpan) int { return a.from.Compare(b.from) })
	return all
}

// covered returns how much of the time between from and to lies in one of the spans. The spans must
// be in the order of their beginnings.
func covered(spans []timeSpan, from, to time.Time) (sum time.Duration) {
	for _, s := range spans {
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

// answering reports whether no fault kept Redis from answering the Leashes between from and to.
func (w *faultTimeline) answering(from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.periods {
		if s.upstream && s.from.Before(to) && (s.to.IsZero() || s.to.Add(recoveryTime).After(from)) {
			return false
		}
	}
	return true
}

// slotMoving reports whether the slot of key moved at some time between from and to, or just before
// from. During a move, the keys of a lock may be on two nodes. A script that needs all of them then
// replies as if the lock were taken.
func (w *faultTimeline) slotMoving(key string, from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.periods, func(s *faultPeriod) bool {
		return slices.Contains(s.places, "the slot of "+key) && s.from.Before(to) && (s.to.IsZero() || s.to.Add(recoveryTime).After(from))
	})
}

// watchStalls notes when this machine did not let Nemesis run, for example because it is busy. If
// Leash is late at such a time, that is no error of Leash.
func (w *faultTimeline) watchStalls(ctx context.Context) {
	ticker := time.NewTicker(stallInterval)
	defer ticker.Stop()
	for last := time.Now(); ctx.Err() == nil; last = time.Now() {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		if now := time.Now(); now.Sub(last) > minStall {
			w.mu.Lock()
			w.stalls++
			w.periods = append(w.periods, &faultPeriod{name: "this machine stalled", upstream: true, from: last, to: now})
			w.mu.Unlock()
		}
	}
}
