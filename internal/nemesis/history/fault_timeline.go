package history

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

// FaultTimeline records when something was broken. It is safe for concurrent use.
type FaultTimeline struct {
	mu      sync.Mutex
	Periods []*FaultPeriod
	Stalls  int // how often this machine stalled
}

// FaultPeriod is a time in which something was broken.
type FaultPeriod struct {
	name      string
	places    []string // the Leash, the node or the slot, if it is known
	Upstream  bool     // Redis may not have answered Leash
	NewMaster bool     // it made a replica the master, or a Leash may have taken a master for new
	From, To  time.Time
}

// Begin notes that something is broken from now on, until ended is called.
func (w *FaultTimeline) Begin(name string, upstream bool) *FaultPeriod {
	s := &FaultPeriod{name: name, Upstream: upstream, From: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Periods = append(w.Periods, s)
	return s
}

// SetPlace adds a place to a fault period.
func (w *FaultTimeline) SetPlace(s *FaultPeriod, where string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.places = append(s.places, where)
}

// Ended notes that a fault is over.
func (w *FaultTimeline) Ended(s *FaultPeriod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.To = time.Now()
}

// OthersDuring reports whether there was another fault during own, or one that ended just before.
func (w *FaultTimeline) OthersDuring(own *FaultPeriod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.Periods {
		if s != own && (s.To.IsZero() || s.To.Add(recoveryTime).After(own.From)) {
			return true
		}
	}
	return false
}

// NewMaster notes that a fault made a replica the master. It is also for a Leash that starts while
// a clock is set back, because that Leash may take a master for new. With a grace period, Leash
// grants nothing at such a master for a while.
func (w *FaultTimeline) NewMaster(s *FaultPeriod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.NewMaster = true
}

// Disturbed returns for how long between from and to there was a fault, or one had just ended.
func (w *FaultTimeline) Disturbed(from, to time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return covered(w.disturbedLocked(), from, to)
}

// DisturbedOrInGrace is like disturbed, but adds the grace periods of new masters, in which Leash
// grants nothing. Leash must reach a master before the grace period begins, and during it. So time
// with faults does not count towards a grace period.
func (w *FaultTimeline) DisturbedOrInGrace(from, to time.Time, grace time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	disturbed := w.disturbedLocked()
	excluded := slices.Clone(disturbed)
	for _, s := range w.Periods {
		if !s.NewMaster || s.To.IsZero() {
			continue
		}
		end := s.To.Add(grace)
		for before := s.To; end.After(before) && end.Before(to); {
			before, end = end, s.To.Add(grace+covered(disturbed, s.To, end))
		}
		excluded = append(excluded, timeSpan{s.To, end})
	}
	slices.SortFunc(excluded, func(a, b timeSpan) int { return a.from.Compare(b.from) })
	return covered(excluded, from, to)
}

// timeSpan is the time between from and to. It has no end yet if to is zero.
type timeSpan struct{ from, to time.Time }

// disturbedLocked returns the times in which there was a fault, or one had just ended. They are in
// the order of their beginnings. w.mu must be held.
func (w *FaultTimeline) disturbedLocked() (all []timeSpan) {
	for _, s := range w.Periods {
		r := timeSpan{from: s.From}
		if !s.To.IsZero() {
			r.to = s.To.Add(recoveryTime)
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
		a, b := Later(s.from, from), to
		if !s.to.IsZero() {
			b = Earlier(s.to, to)
		}
		if a.Before(b) {
			sum += b.Sub(a)
			from = b
		}
	}
	return sum
}

// Answering reports whether no fault kept Redis from answering the Leashes between from and to.
func (w *FaultTimeline) Answering(from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.Periods {
		if s.Upstream && s.From.Before(to) && (s.To.IsZero() || s.To.Add(recoveryTime).After(from)) {
			return false
		}
	}
	return true
}

// SlotMoving reports whether the slot of key moved at some time between from and to, or just before
// from. During a move, the keys of a lock may be on two nodes. A script that needs all of them then
// replies as if the lock were taken.
func (w *FaultTimeline) SlotMoving(key string, from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.Periods, func(s *FaultPeriod) bool {
		return slices.Contains(s.places, "the slot of "+key) && s.From.Before(to) && (s.To.IsZero() || s.To.Add(recoveryTime).After(from))
	})
}

// WatchStalls notes when this machine did not let Nemesis run, for example because it is busy. If
// Leash is late at such a time, that is no error of Leash.
func (w *FaultTimeline) WatchStalls(ctx context.Context) {
	ticker := time.NewTicker(stallInterval)
	defer ticker.Stop()
	for last := time.Now(); ctx.Err() == nil; last = time.Now() {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		if now := time.Now(); now.Sub(last) > minStall {
			w.mu.Lock()
			w.Stalls++
			w.Periods = append(w.Periods, &FaultPeriod{name: "this machine stalled", Upstream: true, From: last, To: now})
			w.mu.Unlock()
		}
	}
}

// Later is the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Earlier is the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
