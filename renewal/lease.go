package renewal

import "time"

// slowAnswer is by how much a lease may seem to end earlier only because the answer was slow.
const slowAnswer = 50 * time.Millisecond

// Correct sets Until of a lease, which may be earlier than before. asked is when the store was
// asked. A plan or an answer from after asked stays. Correct does nothing for a hold that is
// renewed or was not added.
func (w *Watchdog) Correct(h *Hold, until, asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.correct(h, w.moment(until), w.moment(asked))
}

// ReportLeft is Correct for an answer that has just come: the lease h lasts for left from asked on,
// or from a little later. After a slow answer it may be open whether somebody has shortened the
// lease. Then Until stays, and the store is asked again. If it does not answer soon, the earlier
// end counts.
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

// correct is Correct with moments. w.mu is held.
func (w *Watchdog) correct(h *Hold, until, asked moment) {
	g := w.groupOf(h)
	if g == nil || !g.lease || asked < g.answeredAt[h] {
		return
	}
	h.until = until
	g.noteAnswer(h, asked)
	switch {
	case g.every <= g.leaseEndInterval() && h.until > w.now(): // somebody has extended it
		g.remove(h)
		w.join(h, asked, g.groupKey, 0)
	case h.until < g.deadline:
		g.deadline = h.until
		w.updateQueue(g)
		w.wakeUp()
	}
}

// noteAnswer says that Until of the lease h comes from an answer that was asked for at known.
func (g *group) noteAnswer(h *Hold, known moment) {
	if g.answeredAt == nil {
		g.answeredAt = make(map[*Hold]moment)
	}
	g.answeredAt[h] = known
	delete(g.pendingChecks, h)
}

// isUncertain reports whether an answer leaves open if h still ends at its Until, or much earlier.
// By the answer, h ends between earliest and latest.
func (g *group) isUncertain(h *Hold, earliest, latest moment) bool {
	_, doubted := g.pendingChecks[h]
	return !doubted && earliest+slowAnswer < h.until && h.until <= latest
}

// pendingCheck is an uncertain answer about a lease. If the store says nothing new until deadline,
// until becomes the lease's Until.
type pendingCheck struct{ until, deadline moment }

// addPendingCheck notes that h may be over at then.
func (g *group) addPendingCheck(h *Hold, then, now moment) {
	if g.pendingChecks == nil {
		g.pendingChecks = make(map[*Hold]pendingCheck)
	}
	d := pendingCheck{then, now + min(g.ttl/6, maxWait)}
	g.pendingChecks[h] = d
	g.deadline = min(g.deadline, d.deadline)
}

// endPendingCheck makes the uncertain end of h its Until, because the store has not answered.
func (g *group) endPendingCheck(h *Hold) {
	if d, ok := g.pendingChecks[h]; ok {
		h.until = min(h.until, d.until)
		delete(g.pendingChecks, h)
	}
}

// endOverdueChecks ends the pending checks whose deadline has come. It returns the next deadline.
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

// leaseEndInterval is how often leases of the group are checked after their Until.
func (k groupKey) leaseEndInterval() time.Duration {
	return max(min(k.ttl/12, leaseEndInterval), minTTL/3)
}
