package renewal

import (
	"context"
	"math/bits"
	"time"
)

// node is one server of the store and the groups of one class of TTLs that wait for it. At most one round of each is under way.
// All fields are guarded by the Watchdog's mu.
type node struct {
	nodeKey
	line    []*group
	running bool
	backoff time.Duration // after a round that brought no answer
}

// nodeKey keeps long TTLs and short ones apart: what a short one must take for silence, a long one can wait for.
type nodeKey struct {
	name  string
	class int // TTLs of one class differ by less than a factor of 2
}

func classOf(ttl time.Duration) int { return bits.Len64(uint64(ttl)) }

const (
	firstBackoff = 10 * time.Millisecond
	maxBackoff   = time.Second
	maxWait      = 5 * time.Second // for an answer, and so for the end of Run
)

// enqueue puts g in its node's line.
func (w *Watchdog) enqueue(ctx context.Context, name string, g *group) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := nodeKey{name, classOf(g.ttl)}
	n := w.nodes[key]
	if n == nil {
		n = &node{nodeKey: key}
		w.nodes[key] = n
	}
	n.line = append(n.line, g)
	if !n.running {
		n.running = true
		w.wg.Go(func() { w.serve(ctx, n) })
	}
}

// serve sends n's line to the store, round by round, and ends when the line is empty.
func (w *Watchdog) serve(ctx context.Context, n *node) {
	for {
		groups, batches, timeout := w.take(n)
		if groups == nil {
			return
		}
		sent := time.Now()
		results := w.ask(ctx, n.name, batches, timeout)
		told := w.settle(n, groups, batches, results, sent)
		for _, tell := range told {
			tell()
		}
		w.nudge()
	}
}

// take is the next round of n: no groups when there is none, and n is then no longer running.
func (w *Watchdog) take(n *node) (groups []*group, batches []Batch, timeout time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(n.line) == 0 {
		n.running = false
		if n.backoff == 0 { // else it is remembered until a good round
			delete(w.nodes, n.nodeKey)
		}
		return nil, nil, 0
	}
	holds := 0
	for len(n.line) > 0 && holds < maxRound {
		g := n.line[0]
		n.line = n.line[1:]
		groups = append(groups, g)
		batches = append(batches, g.batches()...)
		holds += len(g.holds)
		timeout = max(timeout, min(g.ttl/6, maxWait), 10*time.Millisecond)
	}
	return groups, batches, timeout
}

// ask renews batches at one node. Those that were refused as a whole are sent again one hold at a time, so that one hold
// cannot harm the others (R25).
func (w *Watchdog) ask(ctx context.Context, node string, batches []Batch, timeout time.Duration) [][]Outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	results := w.store.Renew(ctx, node, batches)
	for i, b := range batches {
		if results[i] != nil {
			continue
		}
		results[i] = make([]Outcome, len(b.Holds))
		singles := make([]Batch, len(b.Holds))
		for j := range b.Holds {
			singles[j] = Batch{DB: b.DB, Kind: b.Kind, TTL: b.TTL, Lease: b.Lease, Every: b.Every, Holds: b.Holds[j : j+1]}
		}
		if len(singles) < 2 || ctx.Err() != nil {
			continue
		}
		for j, one := range w.store.Renew(ctx, node, singles) {
			if one != nil {
				results[i][j] = one[0]
			}
		}
	}
	return results
}

// settle writes down what a round brought and returns whom to tell.
func (w *Watchdog) settle(n *node, groups []*group, batches []Batch, results [][]Outcome, sent time.Time) (tell []func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	unknown := make(map[groupKey]bool)
	for i, b := range batches {
		for j, h := range b.Holds {
			g := h.group
			if g == nil || g.ttl != b.TTL || g.kind != b.Kind || g.lease != b.Lease {
				continue // removed, or kept by another plan since: this answer is too old for it
			}
			switch results[i][j] {
			case Unknown:
				unknown[g.groupKey] = true
				w.Stats.Unknowns.Add(1)
			case Renewed:
				w.Stats.Renewals.Add(1)
			}
			if end := h.settle(results[i][j], sent, now); end != nil {
				g.remove(h)
				tell = append(tell, end)
			}
		}
	}
	n.pace(len(unknown) > 0)
	for _, g := range groups {
		g.busy = false
		g.due = g.next(w.start, now)
		if unknown[g.groupKey] {
			g.due = now.Add(min(n.backoff, g.ttl/12))
		}
		if g.again {
			g.again, g.due = false, now
		}
		for _, h := range g.expired(now) {
			g.remove(h)
			tell = append(tell, h.over)
		}
		g.finish()
		w.place(g)
	}
	return tell
}

// settle applies what the store said of h. A nonnil end is to be called once h is no longer kept.
func (h *Hold) settle(said Outcome, sent, now time.Time) (end func()) {
	switch said {
	case Renewed:
		if !now.Before(h.until) {
			return h.over // too late: it may have been somebody else's for a moment
		}
		if until := Until(sent, h.group.ttl); !h.lease && until.After(h.until) {
			h.until = until
		}
		return nil
	case Released, Moved, Repeated, Expired:
		return func() { h.Keeper.Ended(said) }
	case Broken:
		return func() { h.Keeper.Lost(ReasonBroken) }
	case Gone:
		if h.lease && !now.Before(h.until) {
			return h.over
		}
		return func() { h.Keeper.Lost(ReasonGone) }
	}
	return nil
}

// pace slows n down while it does not answer.
func (n *node) pace(silent bool) {
	if !silent {
		n.backoff = 0
		return
	}
	n.backoff = min(max(2*n.backoff, firstBackoff), maxBackoff)
}

// finish lets those go who waited for the round that is over.
func (g *group) finish() {
	for _, done := range g.waiting {
		done()
	}
	g.waiting, g.later = g.later, nil
}
