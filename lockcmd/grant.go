package lockcmd

import (
	"context"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// accept makes a granted result a hold of the carrier. With a nonempty message, the error to
// answer, it fails and gives the grant back: the lease was over, or the client is gone. Grant and
// disconnect are decided under the carrier's mutex (R19).
func (a *acquisition) accept(ctx context.Context, r result) (h *hold.Hold, msg string) {
	s, c := a.carrier.service, a.carrier
	a.renewLateGrant(&r)
	h, until := a.hold(r)
	if renewal.Left(until) <= 0 {
		s.undo(a)
		return nil, msgShort
	}
	if !c.attachHold(ctx, h, a.options.id, !r.repeated, until) {
		if r.kind == moved { // its other acquires belong to the owner
			s.undoMoved(a, func() *hold.Hold { h, _ := a.carry(r); return h })
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
	ref := script.Ref{Lock: a.options.lock(), Token: r.token, Carrier: a.carrier.Name}
	held, sent, err := s.redis.RenewHold(ref, a.options.mode, a.owner, ttl, s.deadline())
	if err == nil && held {
		later := sent.Sub(r.sent)
		r.sent, r.age, r.left = sent, r.age+later, max(ttl, r.left-later)
	}
}

// attachHold makes h a hold of the carrier, unless its client is gone. An acquire with that ID has
// granted h or counted once more, and h is safe until then. counts is false for a repetition of the
// last acquire.
func (c *Carrier) attachHold(ctx context.Context, h *hold.Hold, id string, counts bool, until time.Time) bool {
	if h.IsFresh() {
		return c.attachHolds(ctx, []*hold.Hold{h}, id, []time.Time{until})
	}
	return c.Reacquire(ctx, h, id, counts, until)
}

// attachHolds makes holds that were just granted the carrier's, unless its client is gone: all or
// none (R19). until says when each is safe.
func (c *Carrier) attachHolds(ctx context.Context, holds []*hold.Hold, id string, until []time.Time) bool {
	if !c.Attach(ctx, holds, id, until) {
		return false
	}
	for _, h := range holds {
		c.service.observe(Granted, h, c.Waited())
		c.service.events.deliverPending(h)
		c.service.checkWanted(h)
	}
	return true
}

// hold returns the hold of a result, and until when it is safe.
func (a *acquisition) hold(r result) (*hold.Hold, time.Time) {
	opts := &a.options
	until := renewal.Until(r.sent, r.left)
	if h := a.own; h != nil {
		if !r.repeated {
			h.Raise(opts.ttl, opts.Lease)
		}
		return h, until
	}
	g := hold.Grant{
		Key: opts.key, DB: opts.db, Mode: opts.mode, Owner: a.owner, Number: a.ownerNumber, Token: r.token,
		TTL: opts.ttl, Terms: opts.Terms, Since: r.sent.Add(-r.age), Group: a.group, Handovers: r.handovers,
	}
	if r.kind == moved {
		g.Moved, g.Moves, g.Count = true, r.record.Moves(), r.count
		g.TTL, g.Terms, g.Group, g.Handovers = script.Millis(r.record.TTL), r.record.Terms(), nil, 0
	}
	return hold.New(&a.carrier.Carrier, &g), until
}

// giveBack ends a grant that nobody can be told of. A new hold is released, and so is what a late
// copy of its acquire takes. For an owner's further acquire, one count is taken back.
func (a *acquisition) giveBack(h *hold.Hold) {
	s := a.carrier.service
	if h == a.own {
		s.undo(a)
		return
	}
	h.Apply(hold.ClosedToRelease)
	if a.copyPending {
		s.spawn(func() { s.undoLater(a, h) })
	}
}
