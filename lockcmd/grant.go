package lockcmd

import (
	"context"
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// accept makes a granted result a hold of the carrier. With a nonempty message, the error to
// answer, it fails and gives the grant back: the lease was over, or the client is gone. Grant and
// disconnect are decided under the carrier's mutex (R19).
func (a *acquisition) accept(ctx context.Context, r result) (h *hold, msg string) {
	s, c := a.carrier.service, a.carrier
	a.renewLateGrant(&r)
	h, until := a.hold(r)
	if renewal.Left(until) <= 0 {
		s.undo(a)
		return nil, msgShort
	}
	if !c.attachHold(ctx, h, a.options.id, !r.repeated, until) {
		if r.kind == moved { // its other acquires belong to the owner
			s.undoMoved(a, func() *hold { h, _ := a.carry(r); return h })
		} else {
			a.giveBack(h)
		}
		return nil, msgGone
	}
	s.stats.acquires.Add(1)
	if a.copyPending {
		s.spawn(func() { s.undoLater(a, h) })
	}
	return h, ""
}

// renewLateGrant renews a grant whose answer took long. Otherwise half of its lease could be over
// at the start.
func (a *acquisition) renewLateGrant(r *result) {
	s, ttl, lease := a.carrier.service, a.options.ttl, a.options.Lease
	if r.kind == moved {
		ttl, lease = max(ttl, script.Millis(r.record.TTL)), r.record.Terms().Lease
	}
	if lease || renewal.Left(renewal.Until(r.sent, r.left)) > ttl/2 {
		return
	}
	ref := script.Ref{Lock: a.options.lock(), Token: r.token, Carrier: a.carrier.name}
	held, sent, err := s.redis.RenewHold(ref, a.options.mode, a.owner, ttl, s.deadline())
	if err == nil && held {
		later := sent.Sub(r.sent)
		r.sent, r.age, r.left = sent, r.age+later, max(ttl, r.left-later)
	}
}

// attachHold makes h a hold of the carrier, unless its client is gone. An acquire with that ID has
// granted h or counted once more, and h is safe until then. counts is false for a repetition of the
// last acquire.
func (c *Carrier) attachHold(ctx context.Context, h *hold, id string, counts bool, until time.Time) bool {
	c.mu.Lock()
	if fresh := h.state == granting; fresh || c.ended || ctx.Err() != nil {
		c.mu.Unlock()
		return fresh && c.attachHolds(ctx, []*hold{h}, id, []time.Time{until})
	}
	defer c.mu.Unlock()
	if _, ok := h.applyLocked(acquired, ""); !ok {
		return false
	}
	if counts {
		h.count = clampCount(int64(h.count) + 1)
	}
	h.setLastIDLocked(id)
	h.keepLocked(until)
	return true
}

// attachHolds makes holds that were just granted the carrier's, unless its client is gone: all or
// none (R19). until says when each is safe.
func (c *Carrier) attachHolds(ctx context.Context, holds []*hold, id string, until []time.Time) bool {
	s := c.service
	c.guard(len(holds))
	c.mu.Lock()
	if c.ended || ctx.Err() != nil {
		c.mu.Unlock()
		c.guard(-len(holds))
		return false
	}
	for i, h := range holds {
		h.applyLocked(attached, "")
		h.setLastIDLocked(id)
		h.since = s.now() // before SearchHolds can find h
		c.addHoldLocked(h)
		s.stats.holds.add(h.kind, 1)
		h.startTimerLocked()
		c.watchIdleLocked(h)
		c.holdBackPushesLocked(h)
		h.keepLocked(until[i])
		s.index(h) // last, because from now on events about h are handled
	}
	c.mu.Unlock()
	for _, h := range holds {
		s.observe(Granted, h)
		s.events.deliverPending(h)
		h.checkWanted()
	}
	return true
}

// keepLocked gives h to the watchdog. It is safe until then.
func (h *hold) keepLocked(until time.Time) {
	h.carrier.service.watchdog.Add(&h.watch, h.plan(until))
	h.carrier.noteSafeUntilLocked(h, until)
}

// setLastIDLocked sets the ID of the last acquire.
func (h *hold) setLastIDLocked(id string) {
	if h.readExtra().lastID != id {
		h.writeExtra().lastID = id
	}
}

// hold returns the hold of a result, and until when it is safe.
func (a *acquisition) hold(r result) (*hold, time.Time) {
	c, opts := a.carrier, a.options
	until := renewal.Until(r.sent, r.left)
	if h := a.own; h != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.repeated {
			return h, until
		}
		if !opts.Lease && h.Lease {
			h.Lease, h.ttl = false, opts.ttl
		} else if opts.Lease == h.Lease {
			h.ttl = max(h.ttl, opts.ttl)
		}
		return h, until
	}
	h := &hold{
		carrier: c, kind: opts.mode.ID, db: int32(opts.db), naming: numbered(opts.key, a.ownerNumber),
		token: r.token, count: 1, Flags: opts.Flags, ttl: opts.ttl,
	}
	if a.ownerNumber == 0 {
		h.naming = named(opts.key, a.owner)
	}
	h.watch.Keeper = h
	x := extra{maxHold: opts.MaxHold, idle: opts.Idle, group: a.group, handovers: r.handovers}
	if r.kind == moved { // its owner knows of it already
		terms := r.record.Terms()
		if opts.mode != script.Permit {
			h.remoteWatch = watched // somebody may be watching it
		}
		h.Flags, h.ttl, h.count = terms.Flags, script.Millis(r.record.TTL), clampCount(r.count)
		x = extra{maxHold: terms.MaxHold, idle: terms.Idle, moves: r.record.Moves()}
	}
	if x.maxHold > 0 && x.group == nil { // in a group MAXHOLD counts when the group is complete
		x.maxHoldEnd = r.sent.Add(x.maxHold - r.age)
	}
	if x.maxHold > 0 || x.idle > 0 || x.moves > 0 || x.handovers > 0 || x.group != nil {
		kept := x // a copy, so that x itself is not on the heap
		h.extra = &kept
	}
	return h, until
}

// giveBack ends a grant that nobody can be told of. A new hold is released, and so is what a late
// copy of its acquire takes. For an owner's further acquire, one count is taken back.
func (a *acquisition) giveBack(h *hold) {
	s := a.carrier.service
	if h == a.own {
		s.undo(a)
		return
	}
	h.apply(closedToRelease, "")
	if a.copyPending {
		s.spawn(func() { s.undoLater(a, h) })
	}
}
