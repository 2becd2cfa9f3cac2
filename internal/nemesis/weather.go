package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// aftermath is how long what was broken may still be felt when it is mended: connections are dialed anew, with pauses.
	aftermath = 2 * time.Second
	// stallTick is how often it is looked whether this machine runs, and stallLeast what counts as that it did not.
	stallTick  = 20 * time.Millisecond
	stallLeast = 200 * time.Millisecond
)

// weather knows when something was broken. It is safe for concurrent use.
type weather struct {
	mu     sync.Mutex
	spells []*spell
	stalls int
}

// spell is a time in which something was broken.
type spell struct {
	name     string
	where    []string // which Leash or node, as far as it is known
	upstream bool     // Redis may not have answered Leash
	from, to time.Time
}

// begin says that something is broken from now on, until it is mended.
func (w *weather) begin(name string, upstream bool) *spell {
	s := &spell{name: name, upstream: upstream, from: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spells = append(w.spells, s)
	return s
}

// at says where a spell is.
func (w *weather) at(s *spell, where string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.where = append(s.where, where)
}

func (w *weather) mended(s *spell) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.to = time.Now()
}

// rough is for how long between from and to something was broken, or had just been mended.
func (w *weather) rough(from, to time.Time) (sum time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.spells, func(a, b *spell) int { return a.from.Compare(b.from) })
	for _, s := range w.spells {
		a, b := s.from, to
		if !s.to.IsZero() && s.to.Add(aftermath).Before(to) {
			b = s.to.Add(aftermath)
		}
		if a.Before(from) {
			a = from
		}
		if a.Before(b) {
			sum += b.Sub(a)
			from = b
		}
	}
	return sum
}

// answering reports whether Redis answered the Leashes, as far as it was up to us, all the time from from to to.
func (w *weather) answering(from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.spells {
		if s.upstream && s.from.Before(to) && (s.to.IsZero() || s.to.Add(aftermath).After(from)) {
			return false
		}
	}
	return true
}

// watchStalls notes when this machine, or what else runs on it, does not let us run: what Leash does late then is not its fault.
func (w *weather) watchStalls(ctx context.Context) {
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
			w.spells = append(w.spells, &spell{name: "this machine stalled", upstream: true, from: last, to: now})
			w.mu.Unlock()
		}
	}
}
