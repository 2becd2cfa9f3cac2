package renewal

import "time"

// slowAnswer is by how much an answer about a lease may make it end earlier, though it does so only because it was slow.
const slowAnswer = 50 * time.Millisecond

// Correct sets until when a lease is safe, which may be earlier than planned: the store was asked at asked, and says so. What was planned
// or found out since counts more. It does nothing for a hold that is renewed, or not kept.
func (w *Watchdog) Correct(h *Hold, until, asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.correct(h, w.moment(until), w.moment(asked))
}

// Heard is Correct with what the store, asked at asked, has just said: that h has left to live. It said so at some time since asked, and asked is
// what counts; but an answer that was slow and leaves open whether somebody has shortened the lease changes nothing yet: the store is asked again,
// and unless it answers the earlier end counts.
func (w *Watchdog) Heard(h *Hold, left time.Duration, asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, known := w.moment(Until(asked, left)), w.moment(asked)
	if g := w.groupOf(h); g != nil && g.lease && known >= g.known[h] && g.leavesOpen(h, until, w.now()+left) {
		g.doubt(h, until)
		w.hurry(g)
		w.nudge()
		return
	}
	w.correct(h, until, known)
}

// correct is Correct in moments. w.mu is held.
func (w *Watchdog) correct(h *Hold, until, asked moment) {
	g := w.groupOf(h)
	if g == nil || !g.lease || asked < g.known[h] {
		return
	}
	h.until = until
	g.learn(h, asked)
	switch {
	case g.every <= g.ending() && h.until > w.now(): // somebody has made it last
		g.remove(h)
		w.join(h, asked, g.groupKey, 0)
	case h.until < g.deadline:
		g.deadline = h.until
		w.place(g)
		w.nudge()
	}
}

// learn says that what is found out before known is older than the until of h, a lease.
func (g *group) learn(h *Hold, known moment) {
	if g.known == nil {
		g.known = make(map[*Hold]moment)
	}
	g.known[h] = known
	delete(g.doubted, h)
}

// leavesOpen reports whether h may end when it is thought to, or considerably earlier: at the earliest by the first bound, which is a cautious one,
// and at the latest by the second.
func (g *group) leavesOpen(h *Hold, earliest, latest moment) bool {
	_, doubted := g.doubted[h]
	return !doubted && earliest+slowAnswer < h.until && h.until <= latest
}

// doubt says that h may be over by then.
func (g *group) doubt(h *Hold, then moment) {
	if g.doubted == nil {
		g.doubted = make(map[*Hold]moment)
	}
	g.doubted[h] = then
}

// unanswered is when the store was asked for h and did not answer: what was in doubt is no more.
func (g *group) unanswered(h *Hold) {
	if then, ok := g.doubted[h]; ok {
		h.until = min(h.until, then)
		delete(g.doubted, h)
	}
}

// ending is how often leases of the group are looked at that are over as far as is known.
func (k groupKey) ending() time.Duration { return max(min(k.ttl/12, endingEvery), minTTL/3) }
