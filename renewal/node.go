package renewal

import (
	"context"
	"math/bits"
	"time"

	"leash/internal/guard"
)

// node is one server of the store and the groups of one class of TTLs that wait for it. One round
// of each is under way, or several while it answers but lags behind. All fields are guarded by the
// Watchdog's mu.
type node struct {
	nodeKey
	queue   []*group
	rounds  int           // under way
	backoff time.Duration // after a round in which an answer was missing
	// for work in a round; less after one that brought no answer at all, for it may have been too
	// much
	roundLimit int
}

// nodeKey keeps long TTLs and short ones apart: what a short one must take for silence, a long one
// can wait for.
type nodeKey struct {
	name  string
	class int // TTLs of one class differ by less than a factor of 2
}

func classOf(ttl time.Duration) int { return bits.Len64(uint64(ttl)) }

const (
	firstBackoff = 10 * time.Millisecond
	maxBackoff   = time.Second
	maxWait      = 5 * time.Second // for an answer, and so for the end of Run
	maxRounds    = 4               // of a node at once

	// maxToleratedLag is so little that a node that is far away is asked for enough before others
	// have to wait for renewals that lag.
	maxToleratedLag = 80 * time.Millisecond

	// promptPart is such a part of what n tolerates that it is 5 ms with a TTL of 30 s. With the 0.6
	// ms that lie between two slots then, calls were hardly ever small when there were a million
	// holds: timers are late by more. Always small ones took p99 of acquires beside them from 0.89
	// to 0.66 ms (medians of 9) while a renewal took Redis 6.5 µs, and made no difference to it
	// while one took 8.
	promptPart = 16
)

// send puts groups in the lines of their nodes.
func (w *Watchdog) send(ctx context.Context, due []*group) {
	if len(due) == 0 {
		return
	}
	var few [32]string
	names := few[:0]
	for _, g := range due {
		names = append(names, w.store.Node(g.db, g.slot))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, g := range due {
		key := nodeKey{names[i], classOf(g.ttl)}
		n := w.nodes[key]
		if n == nil {
			n = &node{nodeKey: key, roundLimit: maxRound}
			w.nodes[key] = n
		}
		n.queue = append(n.queue, g)
		if n.rounds == 0 || n.rounds < maxRounds && n.isBehind(w.now()) {
			n.rounds++
			r := w.newRound()
			w.wg.Go(guard.Func(w.Log, "renewal", func() { w.serve(ctx, n, r) }))
		}
	}
}

// lag is for how long the first in line has been due, though n answers. What is not due yet is in
// line as company.
func (n *node) lag(now moment) time.Duration {
	if len(n.queue) == 0 || n.backoff > 0 {
		return 0
	}
	return max(now-n.queue[0].due, 0)
}

// isBehind reports whether n has to do more at once.
func (n *node) isBehind(now moment) bool { return len(n.queue) > 0 && n.lag(now) > n.toleratedLag() }

// isPrompt reports whether n hardly lags at all: with TTLs of up to 30 s it is done with each slot by
// the time that the eighth after it is due.
func (n *node) isPrompt(now moment) bool {
	return n.backoff == 0 && n.lag(now) <= max(n.toleratedLag()/promptPart, n.queue[0].every/slotCount)
}

// toleratedLag is by how much n may lag behind as if it kept up.
func (n *node) toleratedLag() time.Duration {
	return min(max(n.queue[0].every/128, 1), maxToleratedLag)
}

// roundSize is how much work is for one round of n: the more the longer it lags behind, and no more
// than helps, for others wait for the store meanwhile. A node that is far away soon has as many
// holds on their way as it needs; with one that has no CPU left large rounds help little.
func (n *node) roundSize(now moment) int {
	if !n.isBehind(now) {
		return calmRound
	}
	longer := float64(n.lag(now)) / float64(n.toleratedLag())
	return int(min(longer*longer*lagRound, maxRound))
}

// serve sends n's line to the store, round by round, which it writes on r, and ends when the line
// is empty.
func (w *Watchdog) serve(ctx context.Context, n *node, r *round) {
	for w.take(n, r) {
		r.sent = w.now()
		if guard.Do(w.Log, "renewal", func() { w.ask(ctx, n.name, r) }) != nil {
			r.setUnknown()
		}
		told := w.settle(n, r)
		for _, tell := range told {
			_ = guard.Do(w.Log, "end of a hold", tell)
		}
		w.wakeUp()
	}
}

// take makes r the next round of n; false when there is none, and nobody is then to wait for one.
func (w *Watchdog) take(n *node, r *round) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(n.queue) == 0 {
		n.rounds--
		if n.rounds == 0 && n.backoff == 0 { // else it is remembered until a good round
			delete(w.nodes, n.nodeKey)
		}
		r.reset(0)
		w.freeRounds = append(w.freeRounds, r)
		return false
	}
	r.reset(w.suspended)
	now, large := w.now(), n.queue[0].work() > maxRound // for which small calls would take too long
	room := min(n.roundLimit, n.roundSize(now))
	r.calm, r.batchSize = !large && !n.isBehind(now), maxBatch
	switch {
	case r.calm && n.isPrompt(now):
		r.batchSize = promptBatch
	case r.calm:
		r.batchSize = calmBatch
	}
	for work := 0; len(n.queue) > 0 && (work == 0 || work+n.queue[0].work() <= room); {
		g := n.queue[0]
		n.queue = n.queue[1:]
		r.add(g)
		work += g.work()
	}
	return true
}

// ask sends r to the store, call by call; all of them have r's time together.
func (w *Watchdog) ask(ctx context.Context, node string, r *round) {
	c := newDeadlineContext(ctx, time.Now().Add(r.timeout))
	defer c.end()
	late := func() bool { return w.now() > r.sent+r.timeout/2 }
	for some, results := range r.calls(late) {
		w.call(c, node, some, results)
	}
}

// call renews batches at one node and writes down in results what it says of them. Those that were
// refused as a whole are sent again one hold at a time, so that one hold cannot harm the others
// (R25).
func (w *Watchdog) call(ctx context.Context, node string, batches []Batch, results [][]Outcome) {
	w.store.Renew(ctx, node, batches, results)
	for i, b := range batches {
		if results[i] != nil {
			continue
		}
		results[i] = make([]Outcome, len(b.Holds))
		if len(b.Holds) < 2 || ctx.Err() != nil {
			continue
		}
		singles, each := make([]Batch, len(b.Holds)), make([][]Outcome, len(b.Holds))
		for j := range b.Holds {
			singles[j] = Batch{DB: b.DB, Kind: b.Kind, Slot: b.Slot, TTL: b.TTL, Lease: b.Lease, Every: b.Every, Holds: b.Holds[j : j+1]}
			each[j] = results[i][j : j+1]
		}
		w.store.Renew(ctx, node, singles, each) // those that are refused stay Unknown
	}
}

// settle writes down what a round brought and returns whom to tell.
func (w *Watchdog) settle(n *node, r *round) (tell []func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	// for the store, the time slept through since then has passed
	sent := r.sent - max(w.suspended-r.suspended, 0)
	unknown, answered := make(map[groupKey]bool), false
	r.prefetch()
	for i, b := range r.batches {
		for j, h := range b.Holds {
			g := w.groupOf(h)
			if g == nil || g.ttl != b.TTL || g.kind != b.Kind || g.lease != b.Lease {
				continue // removed, or kept by another plan since: this answer is too old for it
			}
			answered = answered || r.results[i][j] != Unknown
			switch r.results[i][j] {
			case Unknown:
				unknown[g.groupKey] = true
				w.Stats.Unknowns.Add(1)
			case Renewed:
				w.Stats.Renewals.Add(1)
			}
			if end := g.settle(h, r.results[i][j], sent, now); end != nil {
				g.remove(h)
				tell = append(tell, end)
			}
		}
	}
	n.updateBackoff(len(unknown) > 0, answered)
	for _, g := range r.groups {
		g.busy = false
		g.schedule(max(now, g.due)) // which was later, if g was in company
		if unknown[g.groupKey] {
			g.due, g.regular = now+min(n.backoff, g.retryDelay()), false
		}
		if g.checkAgain {
			g.checkAgain, g.due, g.regular = false, now, false
		}
		tell = append(tell, w.expire(g, now)...)
		g.callWaiting()
		w.updateQueue(g)
	}
	return tell
}

// settle applies what the store said of h, which is in g. A nonnil end is to be called once h is no
// longer kept.
func (g *group) settle(h *Hold, said Outcome, sent, now moment) (end func()) {
	switch said {
	case Unknown:
		g.endPendingCheck(h)
	case Renewed:
		switch {
		case g.lease:
		case now >= h.until: // too late: it may have been somebody else's for a moment
			return func() { h.Keeper.Lost(ReasonSilence) }
		default:
			h.until = max(h.until, sent+safeTime(g.ttl))
		}
		return nil
	case Released, Moved, Repeated, Expired:
		return func() { h.Keeper.Ended(said) }
	case Broken:
		return func() { h.Keeper.Lost(ReasonBroken) }
	case Gone:
		if g.lease && now >= h.until {
			return func() { h.Keeper.Ended(Expired) }
		}
		return func() { h.Keeper.Lost(ReasonGone) }
	}
	return nil
}

// updateBackoff slows n down while it does not answer, and lets it have less at once.
func (n *node) updateBackoff(silent, answered bool) {
	if answered {
		n.roundLimit = min(n.roundLimit+maxBatch, maxRound)
	} else if silent {
		n.roundLimit = max(n.roundLimit/2, maxBatch)
	}
	if !silent {
		n.backoff = 0
		return
	}
	n.backoff = min(max(2*n.backoff, firstBackoff), maxBackoff)
}

// callWaiting lets those go who waited for the round that is over.
func (g *group) callWaiting() {
	for _, done := range g.onRoundEnd {
		done()
	}
	g.onRoundEnd, g.onNextRoundEnd = g.onNextRoundEnd, nil
}
