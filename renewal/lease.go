package renewal

import "time"

// slowAnswer is by how much an answer about a lease may make it end earlier, though it does so only
// because it was slow.
const slowAnswer = 50 * time.Millisecond

// Correct sets until when a lease is safe, which may be earlier than planned: the store was asked
// at asked, and says so. What was planned or found out since counts more. It does nothing for a
// hold that is renewed, or not kept.
func (w *Watchdog) Correct(h *Hold, until, asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.correct(h, w.moment(until), w.moment(asked))
}

// ReportLeft is Correct with what the store, asked at asked, has just said: that h has left to live. It
// said so at some time since asked, and asked is what counts; but an answer that was slow and
// leaves open whether somebody has shortened the lease changes nothing yet: the store is asked
// again, and unless it answers soon the earlier end counts.
func (w *Watchdog) ReportLeft(h *Hold, left time.Duration, asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, known := w.moment(Until(asked, left)), w.moment(asked)
	if g := w.groupOf(h); g != nil && g.lease && known >= g.answeredAt[h] && g.isUncertain(h, until, w.now()+left) {
		g.addPendingCheck(h, until, w.now())
		w.checkNow(g)
		w.updateQueue(g)
		w.wakeUp()
		return
	}
	w.correct(h, until, known)
}

// correct is Correct in moments. w.mu is held.
func (w *Watchdog) correct(h *Hold, until, asked moment) {
	g := w.groupOf(h)
	if g == nil || !g.lease || asked < g.answeredAt[h] {
		return
	}
	h.until = until
	g.noteAnswer(h, asked)
	switch {
	case g.every <= g.leaseEndInterval() && h.until > w.now(): // somebody has made it last
		g.remove(h)
		w.join(h, asked, g.groupKey, 0)
	case h.until < g.deadline:
		g.deadline = h.until
		w.updateQueue(g)
		w.wakeUp()
	}
}

// noteAnswer says that what is found out before known is older than the until of h, a lease.
func (g *group) noteAnswer(h *Hold, known moment) {
	if g.answeredAt == nil {
		g.answeredAt = make(map[*Hold]moment)
	}
	g.answeredAt[h] = known
	delete(g.pendingChecks, h)
}

// isUncertain reports whether h may end when it is thought to, or considerably earlier: at the
// earliest by the first bound, which is a cautious one, and at the latest by the second.
func (g *group) isUncertain(h *Hold, earliest, latest moment) bool {
	_, doubted := g.pendingChecks[h]
	return !doubted && earliest+slowAnswer < h.until && h.until <= latest
}

// pendingCheck is when a lease may be over, and from when on that counts if the store has not said more.
type pendingCheck struct{ until, deadline moment }

// addPendingCheck says that h may be over by then.
func (g *group) addPendingCheck(h *Hold, then, now moment) {
	if g.pendingChecks == nil {
		g.pendingChecks = make(map[*Hold]pendingCheck)
	}
	d := pendingCheck{then, now + min(g.ttl/6, maxWait)}
	g.pendingChecks[h] = d
	g.deadline = min(g.deadline, d.deadline)
}

// endPendingCheck is when the store has not answered what was asked of h: what was in doubt is no more.
func (g *group) endPendingCheck(h *Hold) {
	if d, ok := g.pendingChecks[h]; ok {
		h.until = min(h.until, d.until)
		delete(g.pendingChecks, h)
	}
}

// endOverdueChecks ends the doubts that the store has had time to end, and returns when the next one is to.
func (g *group) endOverdueChecks(now moment) (next moment) {
	next = now + g.ttl
	for h, d := range g.pendingChecks {
		if now >= d.deadline {
			g.endPendingCheck(h)
		} else {
			next = min(next, d.deadline)
		}
	}
	return next
}

// leaseEndInterval is how often leases of the group are looked at that are over as far as is known.
func (k groupKey) leaseEndInterval() time.Duration {
	return max(min(k.ttl/12, leaseEndInterval), minTTL/3)
}
