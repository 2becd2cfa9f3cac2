package renewal

import (
	"iter"
	"time"
)

// round is what a node is asked for at a time. It is used again for others: there may be a thousand
// a second.
type round struct {
	groups    []*group
	batches   []Batch
	holds     []*Hold // of all batches
	calm      bool    // the node keeps up
	batchSize int     // holds in a batch
	timeout   time.Duration
	suspended time.Duration // the Watchdog's, no later than sent
	sent      moment

	results    [][]Outcome // of the batches
	outcomes   []Outcome   // of all holds, which results point into
	prefetched uint32      // of no use, see fetch
}

// maxPooledHolds is for how many holds a round's room is kept.
const maxPooledHolds = 2 * maxRound

// newRound is an empty round. w.mu is held.
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

// reset empties r, and leaves nothing in it that would be kept from the garbage collector.
func (r *round) reset(slept time.Duration) {
	if cap(r.holds) > maxPooledHolds {
		*r = round{suspended: slept}
		return
	}
	clear(r.groups)
	clear(r.batches)
	clear(r.holds)
	clear(r.results)
	*r = round{groups: r.groups[:0], batches: r.batches[:0], holds: r.holds[:0], outcomes: r.outcomes[:0], results: r.results[:0], suspended: slept}
}

// add takes the holds of g in.
func (r *round) add(g *group) {
	r.groups = append(r.groups, g)
	// the shortest TTL can wait the least
	if t := max(min(g.ttl/6, maxWait), 10*time.Millisecond); r.timeout == 0 || t < r.timeout {
		r.timeout = t
	}
	parts := (len(g.holds) + r.batchSize - 1) / r.batchSize
	for i := range parts { // equally large
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
		r.batches = append(r.batches, Batch{DB: g.db, Kind: g.kind, Slot: g.slot, TTL: g.ttl, Lease: g.lease, Every: g.every, Holds: holds})
	}
}

// setUnknown makes every outcome Unknown: the store panicked.
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

// prefetch has the processor read the holds, which lie all over the memory: it waits for many such
// reads in little more time than for one, unless all the work for a hold comes between. w.mu is
// held.
func (r *round) prefetch() {
	for _, h := range r.holds {
		r.prefetched += h.group
	}
}

// calls are the batches that go to the store together, and the room for what it says of them: all
// of them, or, of a group that is too large for a call of a node that keeps up, one after the
// other. As soon as late says that this takes too long, those that are left go together.
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
