package lockcmd

import "time"

// change is what an event did to a hold, and what still follows from it.
type change struct {
	hold    *hold
	to      state
	effects effects
	writes  bool        // a tombstone, for those on other Leashes who wait for the end
	until   time.Time   // if the watchdog does not keep the hold: the hold is safe until then
	loss    *lossReport // nil if it is no loss
	// those on this Leash who wait for the end
	watchers []endWatcher
}

func (ch *change) has(e effects) bool { return ch.effects&e != 0 }

// applyLocked changes the state of h. ok is false if the event is refused in that state. Otherwise
// the caller unlocks the carrier's mu and calls follow. The reason is that of a loss.
func (h *hold) applyLocked(e holdEvent, reason string) (ch change, ok bool) {
	c, t := h.carrier, transitions[h.state][e]
	if t == (transition{}) {
		return change{}, false
	}
	ch = change{hold: h, to: t.to, effects: t.effects}
	if h.state.isRenewed() && !t.to.isRenewed() { // before a release is sent (R26)
		ch.until = c.service.watchdog.Remove(&h.watch)
	}
	if ch.until.IsZero() { // a second release, or a grant without a carrier
		ch.until = time.Now().Add(h.ttl)
	}
	if h.state = t.to; h.state == over && h.entry != 0 {
		h.stopTimerLocked()
		c.removeHoldLocked(h)
	}
	if ch.has(tellLoss) {
		ch.loss = h.noteLossLocked(reason, ch.to == ending)
	}
	ch.takeEndWatchersLocked()
	return ch, true
}

// apply is applyLocked and follow.
func (h *hold) apply(e holdEvent, reason string) (ok bool) {
	h.carrier.mu.Lock()
	ch, ok := h.applyLocked(e, reason)
	h.carrier.mu.Unlock()
	h.carrier.service.follow(time.Time{}, ch)
	return ok
}

// follow does what follows from changes. It does not block. Owners are told of a loss before
// anything else is done (R27). Holds that are left to expire are of one carrier. They are not
// released before unsure. released is closed when the releases that it starts have ended; it is
// nil if there are none.
func (s *Service) follow(unsure time.Time, changes ...change) (released <-chan struct{}) {
	var left []*hold
	var releases []*releaseRequest
	for i := range changes {
		ch, h := &changes[i], changes[i].hold
		if h == nil { // refused
			continue
		}
		if ch.has(tellLoss) {
			ch.loss.tell()
		}
		ch.tellEndWatchers()
		if ch.to == over && h.entry != 0 {
			s.unindex(h)
			s.stats.holds.add(h.kind, -1)
			s.stats.holdTimes.Observe(h.age())
			h.carrier.guard(-1)
			s.observeEnd(ch)
		}
		if ch.has(tellMove) {
			h.carrier.host.End([]byte(h.key()), ReasonMoved)
		}
		if ch.has(askSoon) {
			s.watchdog.Check(&h.watch)
		}
		if ch.has(checkLimits) {
			s.spawn(h.checkLimits)
		}
		if ch.has(leaveToExpire) {
			left = append(left, h)
		}
		if ch.has(startRelease) {
			releases = append(releases, &releaseRequest{service: s, hold: h, all: true, until: ch.until})
		}
	}
	if len(left) > 0 {
		s.limits.add(left, unsure)
	}
	if len(releases) > 0 {
		released = s.endAll(releases)
	}
	return released
}
