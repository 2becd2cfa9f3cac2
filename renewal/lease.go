package renewal

import "time"

// Correct sets Until of a lease, which may be earlier than before. asked is when the store was
// asked. A plan or an answer from after asked stays. Correct does nothing for a hold that is
// renewed or was not added.
func (w *Watchdog) Correct(h *Hold, until, asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.moment(asked)
	g := w.groupOf(h)
	if g == nil || !g.lease || known < g.answeredAt[h] {
		return
	}
	h.until = w.moment(until)
	g.noteAnswer(h, known)
	switch {
	case g.every <= g.leaseEndInterval() && h.until > w.now(): // somebody has extended it
		g.remove(h)
		w.join(h, known, g.groupKey, 0)
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
}

// leaseEndInterval is how often leases of the group are checked after their Until.
func (k groupKey) leaseEndInterval() time.Duration {
	return max(min(k.ttl/12, leaseEndInterval), minTTL/3)
}
