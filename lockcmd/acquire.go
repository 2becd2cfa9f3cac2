package lockcmd

import (
	"context"
	"slices"
	"time"
)

// acquire is LOCK.ACQUIRE.
func (c *Carrier) acquire(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	opts, msg := s.parseAcquire(args)
	opts.db = c.db
	if msg != "" {
		return appendError(dst, msg)
	}
	if s.draining.Load() {
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
		s.awaitRenewals(ctx)
	}
	asked := opts.ttl
	if opts.lease && own != nil {
		opts.ttl = own.capLease(opts.ttl)
	}
	a := c.newAcquisition(opts, own)
	a.askedTTL = asked
	defer a.unlockOwn()
	r := result{kind: taken}
	// else: behind those who wait already (R18)
	if !opts.wait || !s.queues.waiting(a.queueID()) || c.skipsQueue(opts) {
		if opts.wait {
			a.lastMessage = s.subscriber.lastMessage(a.queueID().channel)
		}
		r = a.send(attemptDeadline(s.deadline(), a.end))
	}
	if opts.wait && (r.kind == taken || r.kind == busy) {
		r = c.wait(ctx, a, r)
	}
	// else it is undone
	if a.waitsFair() && r.kind != granted && r.kind != moved && r.kind != unknown {
		s.awaitDequeued(ctx, a)
	}
	return c.replyAcquire(ctx, dst, a, r)
}

// awaitRenewals lets the holds that there are be renewed before others are taken: while renewals lag
// behind by more than does no harm, an acquire waits for half of what is more, but for a second at
// most. Who takes locks as fast as Leash grants them could else have so many that it loses some.
func (s *Service) awaitRenewals(ctx context.Context) {
	if excess := time.Duration(s.watchdog.Stats.Excess.Load()); excess > 0 {
		s.sleep(ctx, min(excess/2, time.Second))
	}
}

// waitsForHold reports whether an ACQUIRE that waits on the connection of h would wait for itself (R5):
// h is another owner's, and cannot be held together with what w asks for. It is called with the
// carrier's mu.
func (opts acquireOptions) waitsForHold(h *hold) bool {
	return h.mode() != permit && !h.isOf(opts.owner) && h.state != releasing && !(h.mode().shared && opts.mode.shared)
}

// waitsForItself reports whether a wait for w's lock would be for a hold of this very connection.
// Redis is asked, for another connection, of another Leash, may have released that hold a moment
// ago.
func (c *Carrier) waitsForItself(opts acquireOptions) bool {
	var ended []*hold
	for {
		h := c.newest(opts.lock(), func(h *hold) bool { return opts.waitsForHold(h) && !slices.Contains(ended, h) })
		if h == nil || c.service.isHeld(h) {
			return h != nil
		}
		ended = append(ended, h)
	}
}

// isHeld reports whether Redis has h; also when it does not say, unless h is a lease that is over
// as far as we know.
func (s *Service) isHeld(h *hold) bool {
	info, err := s.inspect(h.lock(), s.deadline())
	if err != nil {
		return !h.leaseOver()
	}
	_, ok := info.find(options{token: h.token})
	if !ok {
		s.watchdog.Check(&h.watch)
	}
	return ok
}

// skipsQueue reports whether w is to be tried at once, whoever waits: it may be about a hold that its
// owner has. For one that shares the lock, such a hold must be known, here or to Redis, or readers
// that come now would overtake a writer that waits.
func (c *Carrier) skipsQueue(opts acquireOptions) bool {
	if !opts.mode.shared {
		return opts.owner != ""
	}
	own := c.service.find(opts.lock(), func(h *hold) bool { return h.carrier == c || h.isOf(opts.owner) })
	return own != nil || opts.id != "" && c.service.mayHold(opts)
}

// mayHold reports whether w's owner has a hold of the lock, which w then repeats as a rule; also
// when Redis does not say.
func (s *Service) mayHold(opts acquireOptions) bool {
	info, err := s.inspect(opts.lock(), s.deadline())
	return err != nil || slices.ContainsFunc(info.holds, func(f found) bool { return f.owner == opts.owner })
}

// lockOwnHold is the carrier's hold of w's owner and mode, with its gate taken; nil when there is none.
// It fails when an earlier request about the hold has no answer yet.
func (c *Carrier) lockOwnHold(opts acquireOptions) (own *hold, ok bool) {
	if opts.owner == "" {
		return nil, true
	}
	until := c.service.deadline()
	if !c.awaitMoves(opts.lock(), opts.mode, opts.owner, until) {
		return nil, false
	}
	for {
		h := c.newest(opts.lock(), func(h *hold) bool { return h.isOf(opts.owner) && h.mode().sameInRedis(opts.mode) })
		if h == nil {
			return nil, true
		}
		if !h.lockRequests(until) {
			return nil, false
		}
		if h.leaseOver() && !h.wasExtended(until) {
			h.forget(held) // what Redis still has of it the grant replaces
		}
		if c.newest(opts.lock(), func(other *hold) bool { return other == h }) != nil {
			return h, true
		}
		h.unlockRequests() // it ended meanwhile
	}
}

func (c *Carrier) replyAcquire(ctx context.Context, dst []byte, a *acquisition, r result) []byte {
	h, r := a.conclude(ctx, r)
	switch {
	case h != nil:
		return appendInt(dst, h.token)
	case r.text == "":
		return appendNil(dst)
	case r.kind == failed:
		return appendError(dst, r.text)
	}
	return c.timeout(dst, r.text)
}

// conclude settles a try whose result is r: a grant becomes a hold of the carrier, what may yet
// grant is undone. Without a hold the text of the result is what to answer, "" when the lock is
// taken.
func (a *acquisition) conclude(ctx context.Context, r result) (*hold, result) {
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
			s.undoMoved(a, func() *hold { return m.finish(time.Now().Add(max(a.options.ttl, maxLate))) })
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

// attemptInterval is how often a waiter looks for itself, whatever it hears.
const attemptInterval = time.Second

// nextAttempt is how long a waiter trusts what it has seen: lookEvery, give or take a fifth, so that
// waiters of many Leashes do not fall into step; less when the holder's lease ends before, or when
// Redis just does not take requests (R17).
func (s *Service) nextAttempt(r result, random float64) time.Duration {
	pause := time.Duration((0.8 + 0.4*random) * float64(s.attemptInterval))
	if r.kind == busy {
		return pause / 10
	}
	if r.left > 0 {
		pause = min(pause, r.left+time.Millisecond)
	}
	return pause
}
