package lockcmd

import (
	"context"
	"slices"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
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
	if s.waits.Draining() {
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
	r := result{kind: taken}
	a.place = c.placeOf(opts)
	// Otherwise this waiter goes behind those that wait already (R18).
	if !opts.wait || !s.waits.Waiting(a.queueID()) || c.skipsQueue(opts) {
		if opts.wait {
			a.lastMessage = s.events.LastMessage(a.queueID().Channel)
		}
		r = a.send(s.waits.Deadline(a.end))
	}
	if opts.wait && r.mayChange() {
		r = c.wait(ctx, a.wait(), r)
		a.copyPending = a.copyPending || r.copyPending
	}
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
	switch {
	case h != nil:
		return appendInt(dst, h.Token)
	case r.text == "":
		return c.taken(dst)
	case r.kind == failed:
		return appendError(dst, r.text)
	}
	return c.timeout(dst, r.text)
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

// taken answers that the lock is taken, and counts that.
func (c *Carrier) taken(dst []byte) []byte {
	c.service.stats.taken.Add(1)
	return appendNil(dst)
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
