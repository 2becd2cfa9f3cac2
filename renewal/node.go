package renewal

import (
	"context"
	"math/bits"
	"time"

	"leash/internal/guard"
)

// node is one server of the store, with the groups of one class of TTLs that wait for it. It has
// one round at a time, or several while it answers but lags behind. The Watchdog's mu guards all
// fields.
type node struct {
	nodeKey
	queue   []*group
	rounds  int           // on their way now
	backoff time.Duration // after a round in which an answer was missing
	// roundLimit is how much work a round may have. It is lower after a round without any answer,
	// because that round may have been too large.
	roundLimit int
}

// nodeKey separates long TTLs from short ones, because a round with a short TTL must give up
// sooner.
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

	// maxToleratedLag is so short that a node with a long round trip gets enough rounds before new
	// acquires have to wait for renewals.
	maxToleratedLag = 80 * time.Millisecond

	// promptPart makes a node prompt up to a lag of 5 ms with a TTL of 30 s. A limit of 0.6 ms, the
	// time between two slots, gave hardly any small calls with a million holds, because timers are
	// late by more. With small calls, p99 of acquires beside the renewals fell from 0.89 to 0.66 ms
	// (medians of 9), while a renewal took Redis 6.5 µs. It did not change while one took 8 µs.
	promptPart = 16
)

// send adds groups to the queues of their nodes.
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

// lag is for how long the first group in the queue has been due, if n answers. The queue may have
// groups that are not due yet (addUpcoming).
func (n *node) lag(now moment) time.Duration {
	if len(n.queue) == 0 || n.backoff > 0 {
		return 0
	}
	return max(now-n.queue[0].due, 0)
}

// isBehind reports whether n needs larger rounds, and several at a time.
func (n *node) isBehind(now moment) bool { return len(n.queue) > 0 && n.lag(now) > n.toleratedLag() }

// isPrompt reports whether n hardly lags at all. With a TTL of 30 s, each slot is then done before
// the eighth slot after it is due.
func (n *node) isPrompt(now moment) bool {
	return n.backoff == 0 && n.lag(now) <= max(n.toleratedLag()/promptPart, n.queue[0].every/slotCount)
}

// toleratedLag is the lag up to which n counts as keeping up.
func (n *node) toleratedLag() time.Duration {
	return min(max(n.queue[0].every/128, 1), maxToleratedLag)
}

// roundSize is how much work one round of n has. It grows with the lag, but no more than needed,
// because other commands wait for the node. A node with a long round trip soon has enough holds on
// their way. Large rounds help little if a node has no CPU left.
func (n *node) roundSize(now moment) int {
	if !n.isBehind(now) {
		return calmRound
	}
	longer := float64(n.lag(now)) / float64(n.toleratedLag())
	return int(min(longer*longer*lagRound, maxRound))
}

// serve sends the groups in n's queue to the store, round by round, and ends when the queue is
// empty. It uses r for each round.
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

// take makes r the next round of n. It returns false if the queue is empty; then serve ends.
func (w *Watchdog) take(n *node, r *round) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(n.queue) == 0 {
		n.rounds--
		if n.rounds == 0 && n.backoff == 0 { // otherwise n is kept until a round succeeds
			delete(w.nodes, n.nodeKey)
		}
		r.reset(0)
		w.freeRounds = append(w.freeRounds, r)
		return false
	}
	r.reset(w.suspended)
	now, large := w.now(), n.queue[0].work() > maxRound // for a large group, small calls take too long
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

// ask sends r to the store, in one call or several. They share r's time-out.
func (w *Watchdog) ask(ctx context.Context, node string, r *round) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	late := func() bool { return w.now() > r.sent+r.timeout/2 }
	for some, results := range r.calls(late) {
		w.call(ctx, node, some, results)
	}
}

// call renews batches at one node and writes the outcomes to results. If the node refused a batch
// as a whole, each of its holds is sent alone, so that one hold cannot harm the others (R25).
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
			singles[j] = Batch{DB: b.DB, Kind: b.Kind, Slot: b.Slot, TTL: b.TTL, Lease: b.Lease, Every: b.Every,
				Holds: b.Holds[j : j+1]}
			each[j] = results[i][j : j+1]
		}
		w.store.Renew(ctx, node, singles, each) // holds that are refused stay Unknown
	}
}

// settle applies the outcomes of a round. It returns the calls of keepers that follow.
func (w *Watchdog) settle(n *node, r *round) (tell []func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	// The store's clock went on while this machine was suspended.
	sent := r.sent - max(w.suspended-r.suspended, 0)
	unknown, answered := make(map[groupKey]bool), false
	for i, b := range r.batches {
		for j, h := range b.Holds {
			g := w.groupOf(h)
			if g == nil || g.ttl != b.TTL || g.kind != b.Kind || g.lease != b.Lease {
				continue // removed, or its plan has changed: the answer is too old
			}
			answered = answered || r.results[i][j] != Unknown
			if !b.Lease {
				w.margins.note(now, max(h.until-now, 0))
			}
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
		g.schedule(max(now, g.due)) // g.due is later if addUpcoming added g
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

// settle applies the outcome of h, which is in g. If it returns a function, h has ended: the caller
// removes h and then calls the function.
func (g *group) settle(h *Hold, said Outcome, sent, now moment) (end func()) {
	switch said {
	case Renewed:
		switch {
		case g.lease:
		case now >= h.until: // too late: another owner may have had it for a moment
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

// updateBackoff lengthens the pauses and shortens the rounds of a node that does not answer.
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

// callWaiting calls the functions that wait for the end of this round.
func (g *group) callWaiting() {
	for _, done := range g.onRoundEnd {
		done()
	}
	g.onRoundEnd, g.onNextRoundEnd = g.onNextRoundEnd, nil
}
