package lockcmd

import (
	"context"
	"slices"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
	"leash/proxy/resp"
	"leash/renewal"
)

// acquire runs LOCK.ACQUIRE.
func (c *Carrier) acquire(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	opts, msg := s.parseAcquire(args)
	opts.db = c.db
	if msg != "" {
		return appendError(dst, msg)
	}
	if c.grantsNothing() {
		return appendError(dst, msgDraining)
	}
	if opts.wait && c.waitsForItself(opts) {
		return appendError(dst, msgDeadlock)
	}
	own, ok := c.lockOwnHold(opts)
	if !ok {
		return c.timeout(dst, msgRefused)
	}
	if own == nil {
		if full := s.nameLimit(1, opts.key); full != "" {
			return appendError(dst, full)
		}
		s.awaitRenewals(ctx)
	}
	asked := opts.ttl
	if opts.Lease && own != nil {
		opts.ttl = own.CapLease(opts.ttl)
	}
	a := c.newAcquisition(opts, own)
	a.askedTTL = asked
	defer a.unlockOwn()
	wt := a.wait()
	first := opts.wait && s.waits.Waiting(wt.Queue) && c.skipsQueue(opts)
	r := c.attemptOrWait(ctx, wt, wait.Position{Place: c.placeOf(opts)}, opts.wait, first)
	a.copyPending = a.copyPending || r.copyPending
	// In the other cases the undo takes the waiter out of the queue.
	if a.waitsFair() && r.kind != granted && r.kind != moved && r.kind != unknown {
		wait.AwaitLeft(ctx, s.waits.Dequeue(a.fairPlace), a.end)
	}
	return c.replyAcquire(ctx, dst, a, r)
}

// awaitRenewals delays an acquire while renewals lag by more than does no harm. The delay is half
// of that excess, at most 1 s. Without it, a client that takes locks very fast could get so many
// that Leash loses some.
func (s *Service) awaitRenewals(ctx context.Context) {
	if excess := time.Duration(s.watchdog.Stats.Excess.Load()); excess > 0 {
		s.redis.Sleep(ctx, min(excess/2, time.Second))
	}
}

// waitsForHold reports whether an ACQUIRE that waits on the connection of h would wait for itself
// (R5). That is so when another owner has h and the two modes cannot be held together.
func (opts acquireOptions) waitsForHold(h *hold.Hold) bool {
	return !h.IsPermit() && !h.IsOf(opts.owner) && !(h.Mode().Shared && opts.mode.Shared)
}

// waitsForItself reports whether the command would wait for a hold of its own connection. It asks
// Redis, because a connection of another Leash may have released that hold a moment ago.
func (c *Carrier) waitsForItself(opts acquireOptions) bool {
	var ended []*hold.Hold
	for {
		h := c.NewestInTheWay(opts.lock(), func(h *hold.Hold) bool {
			return opts.waitsForHold(h) && !slices.Contains(ended, h)
		})
		if h == nil || c.service.isHeld(h) {
			return h != nil
		}
		ended = append(ended, h)
	}
}

// isHeld reports whether Redis has h. Without an answer from Redis it reports true, unless h is a
// lease that should be over.
func (s *Service) isHeld(h *hold.Hold) bool {
	info, err := s.redis.Inspect(h.Lock(), s.deadline())
	if err != nil {
		return !h.LeaseOver()
	}
	_, ok := info.Find(h.Token)
	if !ok {
		s.watchdog.Check(&h.Watch)
	}
	return ok
}

// placeOf is what the first attempt tells Redis.
func (c *Carrier) placeOf(opts acquireOptions) script.Place {
	reads := opts.mode.Shared && c.Newest(opts.lock(), func(h *hold.Hold) bool { return h.Mode() == opts.mode }) != nil
	switch {
	case reads && opts.wait:
		return script.PlaceTurn
	case reads:
		return script.PlaceReads
	case opts.wait:
		return script.PlaceLast
	}
	return script.PlaceNone
}

// skipsQueue reports whether the command attempts at once, although others wait: it may be about a
// hold that its owner has already. For a shared mode such a hold must be known here or in Redis.
// Otherwise new readers would overtake a waiting writer.
func (c *Carrier) skipsQueue(opts acquireOptions) bool {
	if !opts.mode.Shared {
		return opts.owner != ""
	}
	own := c.service.holds.Find(opts.lock(), func(h *hold.Hold) bool {
		return h.Carrier == &c.Carrier || h.IsOf(opts.owner)
	})
	return own != nil || opts.id != "" && c.service.mayHold(opts)
}

// mayHold reports whether the owner has a hold of the lock, which the command usually repeats.
// Without an answer from Redis it reports true.
func (s *Service) mayHold(opts acquireOptions) bool {
	info, err := s.redis.Inspect(opts.lock(), s.deadline())
	return err != nil || slices.ContainsFunc(info.Holds, func(f script.Hold) bool { return f.Owner == opts.owner })
}

// lockOwnHold returns the carrier's hold of the owner in that mode, with its requests locked. It
// returns nil when there is none. ok is false when an earlier request about the hold has no answer
// yet.
func (c *Carrier) lockOwnHold(opts acquireOptions) (own *hold.Hold, ok bool) {
	if opts.owner == "" {
		return nil, true
	}
	until := c.service.deadline()
	if !c.awaitMoves(opts.lock(), opts.mode, opts.owner, until) {
		return nil, false
	}
	for {
		h := c.Newest(opts.lock(), func(h *hold.Hold) bool {
			return h.IsOf(opts.owner) && h.Mode().SameInRedis(opts.mode)
		})
		if h == nil {
			return nil, true
		}
		if !h.LockRequests(until) {
			return nil, false
		}
		if h.LeaseOver() && !c.service.wasExtended(h, until) {
			h.Apply(hold.Dropped) // the grant replaces what Redis still has of it
		}
		if c.Newest(opts.lock(), func(other *hold.Hold) bool { return other == h }) != nil {
			return h, true
		}
		h.UnlockRequests() // it ended while we waited
	}
}

func (c *Carrier) replyAcquire(ctx context.Context, dst []byte, a *acquisition, r result) []byte {
	h, r := a.conclude(ctx, r)
	if h != nil {
		return appendInt(dst, h.Token)
	}
	return c.replyTaken(dst, r, resp.NilBulk)
}

// conclude settles an acquisition whose result is r. A grant becomes a hold of the carrier. What
// may still be granted is undone. Without a hold, the text of the result is the error to answer, or
// "" when the lock is taken.
func (a *acquisition) conclude(ctx context.Context, r result) (*hold.Hold, result) {
	switch r.kind {
	case granted, moved:
		h, msg := a.accept(ctx, r)
		if msg == "" {
			return h, r
		}
		return nil, result{kind: unknown, text: msg}
	case unknown:
		switch m, s := a.pendingMove, a.carrier.service; {
		case m != nil:
			s.undoMoved(a, func() *hold.Hold { return a.finish(m, time.Now().Add(max(a.options.ttl, maxLate))) })
		case a.repeats():
			s.undoRepeated(a)
		default:
			s.undo(a)
		}
		r.text = msgTimeout
	default:
		if a.copyPending {
			a.carrier.service.undo(a)
		}
	}
	return nil, r
}

// timeout answers with an error and counts it.
func (c *Carrier) timeout(dst []byte, msg string) []byte {
	c.service.stats.timeouts.Add(1)
	return appendError(dst, msg)
}

// replyTaken answers a result without a grant: its error, or that the lock is taken.
func (c *Carrier) replyTaken(dst []byte, r result, taken string) []byte {
	switch {
	case r.kind == failed:
		return appendError(dst, r.text)
	case r.text != "":
		return c.timeout(dst, r.text)
	}
	c.service.stats.taken.Add(1)
	return append(dst, taken...)
}

// wasExtended asks Redis how long h lasts, a lease that is over and whose requests the caller has
// locked. It reports whether somebody extended it, or nobody knows. Without that, our margin leaves
// it at most a quarter of its time in Redis, unless Redis was slow at the grant.
func (s *Service) wasExtended(h *hold.Hold, until time.Time) bool {
	left, sent, err := s.redis.CheckHold(h.Ref(), h.Mode(), h.Owner(), until)
	lasts := left > h.Details().TTL/4
	if err == nil && lasts {
		s.watchdog.Correct(&h.Watch, renewal.Until(sent, left), sent)
	}
	return err != nil || lasts
}

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
