package renewal

import (
	"iter"
	"time"
)

// round is the batches that a node gets at a time. Rounds are reused, because there may be a
// thousand a second.
type round struct {
	groups    []*group
	batches   []Batch
	holds     []*Hold // of all batches
	calm      bool    // the node keeps up
	batchSize int     // holds in a batch
	timeout   time.Duration
	suspended time.Duration // Watchdog.suspended, read before sent
	sent      moment

	results  [][]Outcome // of the batches
	outcomes []Outcome   // of all holds; the slices of results are parts of it
}

// maxPooledHolds is the largest capacity, in holds, that a round keeps for reuse.
const maxPooledHolds = 2 * maxRound

// newRound returns an empty round. w.mu is held.
func (w *Watchdog) newRound() *round {
	last := len(w.freeRounds) - 1
	if last < 0 {
		return &round{}
	}
	r := w.freeRounds[last]
	w.freeRounds[last] = nil
	w.freeRounds = w.freeRounds[:last]
	return r
}

// reset empties r. It clears the pointers, so that the garbage collector can free what they lead
// to.
func (r *round) reset(slept time.Duration) {
	if cap(r.holds) > maxPooledHolds {
		*r = round{suspended: slept}
		return
	}
	clear(r.groups)
	clear(r.batches)
	clear(r.holds)
	clear(r.results)
	*r = round{groups: r.groups[:0], batches: r.batches[:0], holds: r.holds[:0], outcomes: r.outcomes[:0],
		results: r.results[:0], suspended: slept}
}

// add adds the holds of g to the round, in batches of equal size.
func (r *round) add(g *group) {
	r.groups = append(r.groups, g)
	// The shortest TTL decides the time-out.
	if t := max(min(g.ttl/6, maxWait), 10*time.Millisecond); r.timeout == 0 || t < r.timeout {
		r.timeout = t
	}
	parts := (len(g.holds) + r.batchSize - 1) / r.batchSize
	for i := range parts {
		part := g.holds[len(g.holds)*i/parts : len(g.holds)*(i+1)/parts]
		first := len(r.holds)
		for _, n := range part {
			r.holds = append(r.holds, g.holdTable.At(n))
		}
		holds := r.holds[first:len(r.holds):len(r.holds)]
		for range part {
			r.outcomes = append(r.outcomes, Unknown)
		}
		r.results = append(r.results, r.outcomes[first:len(r.outcomes):len(r.outcomes)])
		r.batches = append(r.batches, Batch{DB: g.db, Kind: g.kind, Slot: g.slot, TTL: g.ttl, Lease: g.lease,
			Every: g.every, Holds: holds})
	}
}

// setUnknown makes every outcome Unknown. It is called when the store has panicked.
func (r *round) setUnknown() {
	for i := range r.outcomes {
		r.outcomes[i] = Unknown
	}
	first := 0
	for i, b := range r.batches {
		next := first + len(b.Holds)
		r.results[i] = r.outcomes[first:next:next]
		first = next
	}
}

// calls yields the batches of each call, with the slices for their outcomes. Usually all batches go
// in one call. If the node keeps up and the round is larger than one batch, each batch is a call of
// its own. When late reports that this takes too long, the rest goes in one call.
func (r *round) calls(late func() bool) iter.Seq2[[]Batch, [][]Outcome] {
	return func(yield func([]Batch, [][]Outcome) bool) {
		small := r.calm && len(r.holds) > r.batchSize
		for rest, results := r.batches, r.results; len(rest) > 0; {
			n := len(rest)
			if small && !late() {
				n = 1
			}
			if !yield(rest[:n], results[:n]) {
				return
			}
			rest, results = rest[n:], results[n:]
		}
	}
}
