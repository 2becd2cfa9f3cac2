package hold

import (
	"time"

	"leash/lockcmd/script"
	"leash/proxy/slots"
	"leash/renewal"
)

// Change is what an event did to a hold, and what still follows from it.
type Change struct {
	Hold *Hold
	// Until is the time up to which the hold is safe, if the watchdog does not keep it any more.
	Until time.Time
	// Tombstone is to be written for those on other Leashes who wait for the end; "" for none.
	Tombstone string

	to      State
	effects Effects
	loss    *lossReport // nil if it is no loss
	// those on this Leash who wait for the end, and what they are told
	watchers []chan string
	told     string
}

// Has reports whether one of the effects follows.
func (ch *Change) Has(e Effects) bool { return ch.effects&e != 0 }

// Over reports whether a carrier had the hold, and it is over.
func (ch *Change) Over() bool { return ch.to == Over && ch.Hold.entry != 0 }

// applyLocked changes the state of h. ok is false if the event is refused in that state. Otherwise
// the caller unlocks the carrier's mu and calls follow. The reason is that of a loss.
func (h *Hold) applyLocked(e Event, reason string) (ch Change, ok bool) {
	c, t := h.Carrier, transitions[h.state][e]
	if t == (transition{}) {
		return Change{}, false
	}
	ch = Change{Hold: h, to: t.to, effects: t.effects}
	if h.state.isRenewed() && !t.to.isRenewed() { // before a release is sent (R26)
		ch.Until = c.registry.Watchdog.Remove(&h.Watch)
	}
	if ch.Until.IsZero() { // a second release, or a grant without a carrier
		ch.Until = time.Now().Add(h.ttl)
	}
	if h.state = t.to; h.state == Over && h.entry != 0 {
		if timer := h.readExtra().maxHoldTimer; timer != nil {
			timer.Stop()
		}
		c.removeHoldLocked(h)
	}
	if ch.Has(tellLoss) {
		ch.loss = h.noteLossLocked(reason, ch.to == ending)
	}
	ch.takeEndWatchersLocked()
	return ch, true
}

// Apply lets an event happen that is no loss. ok is false if it is refused in the state of h.
func (h *Hold) Apply(e Event) (ok bool) { return h.apply(e, "") }

// apply is applyLocked and follow.
func (h *Hold) apply(e Event, reason string) (ok bool) {
	h.Carrier.mu.Lock()
	ch, ok := h.applyLocked(e, reason)
	h.Carrier.mu.Unlock()
	h.Carrier.registry.follow(ch)
	return ok
}

// follow does what follows from changes, see Service.Follow. It does not block. Owners are told of
// a loss before anything else is done (R27).
func (r *Registry) follow(changes ...Change) (released <-chan struct{}) {
	accepted := changes[:0]
	for _, ch := range changes {
		if ch.Hold != nil {
			accepted = append(accepted, ch)
		}
	}
	if len(accepted) == 0 {
		return nil
	}
	for i := range accepted {
		ch, h := &accepted[i], accepted[i].Hold
		if ch.Has(tellLoss) {
			ch.loss.tell()
		}
		for _, v := range ch.watchers {
			v <- ch.told // never blocks: each watcher gets one value
		}
		if ch.Over() {
			r.unindex(h)
			r.count(h, -1)
			r.Stats.Times.Observe(h.Age())
			h.Carrier.Guard(-1)
		}
		if ch.Has(tellMove) {
			h.Carrier.host.End([]byte(h.Key()), ReasonMoved)
		}
		if ch.Has(askSoon) {
			r.Watchdog.Check(&h.Watch)
		}
	}
	released = r.Service.Follow(accepted)
	for i := range accepted {
		// IDLE is checked again by itself.
		if h := accepted[i].Hold; accepted[i].Has(CheckLimits) && h.MaxHoldLeft(time.Now()) <= 0 {
			h.Evict(ReasonMaxHold)
		}
	}
	return released
}

// Lost implements renewal.Keeper. It tells the owner before anybody else can get the lock (R27).
func (h *Hold) Lost(reason string) {
	if reason == renewal.ReasonGone {
		h.apply(vanished, reason)
	} else {
		h.apply(expired, reason)
	}
}

// Ended implements renewal.Keeper: the owner ended or moved the hold by another way, or its lease
// is over. After an ATTACH elsewhere, the connection that had the hold is closed (R25).
func (h *Hold) Ended(how renewal.Outcome) {
	switch how {
	case renewal.Moved:
		h.apply(attachedElsewhere, "")
	case renewal.Repeated:
		h.apply(Elsewhere, "")
	default:
		h.apply(Ended, "")
	}
}

// SettleMissing settles a hold that Redis does not have. how says why, and it was safe until that
// time. Its owner ended or moved it by another way, its lease is over, or it is lost. Then lost is
// the reason.
func (h *Hold) SettleMissing(how renewal.Outcome, safe time.Time) (lost string) {
	switch {
	case EndedByOwner(how):
		h.Ended(how)
		return ""
	case h.LeaseOverAt(safe):
		h.Ended(renewal.Expired)
		return ""
	case how == renewal.Broken:
		lost = renewal.ReasonBroken
	default:
		lost = renewal.ReasonGone
	}
	h.apply(notFound, lost)
	return lost
}

// EndedByOwner reports whether the owner wanted the hold to end on this Leash.
func EndedByOwner(how renewal.Outcome) bool {
	return how == renewal.Released || how == renewal.Moved || how == renewal.Repeated || how == renewal.Expired
}

// LoseMissing settles a hold that Redis does not have, and nobody knows why. It is lost if its
// owner relies on it.
func (h *Hold) LoseMissing() {
	if h.State().isReliedOn() {
		h.apply(notFound, renewal.ReasonGone)
	} else {
		h.apply(Ended, "")
	}
}

// BeginRelease begins a release of one count, or of all. The caller has locked the requests of h.
// counts says that counts remain as far as this Leash knows. Then the watchdog goes on to keep h.
// The hold is safe until that time. ok is false if h is not held any more.
func (h *Hold) BeginRelease(all bool) (counts bool, until time.Time, ok bool) {
	h.Carrier.mu.Lock()
	defer h.Carrier.mu.Unlock()
	e := releaseAll
	if counts = !all && h.count > 1; counts {
		e = releaseOne
	}
	ch, ok := h.applyLocked(e, "")
	if until = ch.Until; ok && counts {
		until = h.Carrier.registry.Watchdog.Until(&h.Watch)
	}
	return counts, until, ok
}

// ResumeAfterRelease gives h back to the watchdog after a release, because counts remain. It is
// safe until then. If it was evicted, or its connection ended, it is settled the way that requires.
func (h *Hold) ResumeAfterRelease(until time.Time) {
	h.Carrier.mu.Lock()
	ch, ok := h.applyLocked(resumed, "")
	if ok && ch.to == Held {
		h.keepLocked(until)
	}
	h.Carrier.mu.Unlock()
	h.Carrier.registry.follow(ch) // nothing, if it was lost during the release
}

// Close settles h the way its connection ended, which has ended already.
func (h *Hold) Close() {
	h.Carrier.mu.Lock()
	e := h.closingEventLocked(h.Carrier.how)
	h.Carrier.mu.Unlock()
	h.apply(e, "")
}

// closingEventLocked is what happens to h when its connection ends in that way (R28). A hold that
// its owner has not been told of is always released.
func (h *Hold) closingEventLocked(how Ending) Event {
	if h.unreportedLocked() || how == Release && !h.flags.Lease && !h.flags.StayOnClose {
		return ClosedToRelease
	}
	return closedToExpire
}

// plan is how the watchdog keeps h. A lease is checked as often as other holds are renewed, if it
// lasts that long.
func (h *Hold) plan(until time.Time) renewal.Plan {
	p := renewal.Plan{
		DB: int(h.db), Kind: int(h.kind), Slot: int(slots.Of([]byte(h.Key()))), TTL: h.ttl,
		Lease: h.flags.Lease, Until: until,
	}
	if p.Lease {
		p.TTL = min(h.ttl, h.Carrier.registry.TTL)
	}
	if h.Mode() == script.Read {
		p.Every = readPace
	}
	if !h.Carrier.registry.Cluster {
		p.Slot &^= 0xff // a single node: few full requests
	}
	return p
}

// keepLocked gives h to the watchdog. It is safe until then. If the answer took long, h is renewed
// soon, because the client may rely on it for half of its TTL (R1).
func (h *Hold) keepLocked(until time.Time) {
	w := h.Carrier.registry.Watchdog
	w.Add(&h.Watch, h.plan(until))
	if !h.flags.Lease && renewal.Left(until) <= h.ttl/2 {
		w.Check(&h.Watch)
	}
	h.Carrier.noteSafeUntilLocked(h, until)
}

// readPace is how often the lock of a READ hold is checked at least. A renewal by a Java reader
// sets the lock's TTL to its own value, usually 30 s, and that reader may be gone afterwards.
const readPace = 10 * time.Second

// AdjustPace checks the lock of a READ hold more often when less time was left than our renewals
// set: at least three times in that time (R12). Otherwise the checks become rarer again, in steps
// of two, which keeps holds together. every and ttl are those of the renewal.
func (h *Hold) AdjustPace(left, every, ttl time.Duration) {
	usual := min(readPace, ttl/3)
	pace := min(2*every, usual)
	if left < ttl/2 {
		for pace = usual; pace > max(left/3, MinTTL/3); {
			pace /= 2
		}
	}
	h.Carrier.registry.Watchdog.SetPace(&h.Watch, pace)
}
