package lockcmd

import (
	"context"
	"slices"
	"time"
)

// acquire is LOCK.ACQUIRE.
func (c *Carrier) acquire(ctx context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	w, msg := s.parseAcquire(args)
	w.db = c.db
	if msg != "" {
		return appendError(dst, msg)
	}
	if s.draining.Load() {
		return appendError(dst, msgDraining)
	}
	if w.wait && c.waitsForItself(w) {
		return appendError(dst, msgDeadlock)
	}
	own, ok := c.enter(w)
	if !ok {
		return c.timeout(dst, msgRefused)
	}
	if own == nil {
		s.giveWay(ctx)
	}
	asked := w.ttl
	if w.lease && own != nil {
		w.ttl = own.leaseWithin(w.ttl)
	}
	t := c.newTry(w, own)
	t.asked = asked
	defer t.release()
	r := result{kind: taken}
	// else: behind those who wait already (R18)
	if !w.wait || !s.queues.waiting(t.line()) || c.first(w) {
		if w.wait {
			t.silence = s.ears.silence(t.line().channel)
		}
		r = t.send(lookUntil(s.deadline(), t.end))
	}
	if w.wait && (r.kind == taken || r.kind == busy) {
		r = c.wait(ctx, t, r)
	}
	// else it is undone
	if t.stands() && r.kind != granted && r.kind != moved && r.kind != unknown {
		s.awaitLeft(ctx, t)
	}
	return c.replyAcquire(ctx, dst, t, r)
}

// giveWay lets the holds that there are be renewed before others are taken: while renewals lag
// behind by more than does no harm, an acquire waits for half of what is more, but for a second at
// most. Who takes locks as fast as Leash grants them could else have so many that it loses some.
func (s *Service) giveWay(ctx context.Context) {
	if excess := time.Duration(s.watchdog.Stats.Excess.Load()); excess > 0 {
		s.rest(ctx, min(excess/2, time.Second))
	}
}

// deadlock reports whether an ACQUIRE that waits on the connection of h would wait for itself (R5):
// h is another owner's, and cannot be held together with what w asks for. It is called with the
// carrier's mu.
func (w wish) deadlock(h *hold) bool {
	return h.mode() != permit && !h.isOf(w.owner) && h.state != releasing && !(h.mode().shared && w.mode.shared)
}

// waitsForItself reports whether a wait for w's lock would be for a hold of this very connection.
// Redis is asked, for another connection, of another Leash, may have released that hold a moment
// ago.
func (c *Carrier) waitsForItself(w wish) bool {
	var ended []*hold
	for {
		h := c.newest(w.lock(), func(h *hold) bool { return w.deadlock(h) && !slices.Contains(ended, h) })
		if h == nil || c.service.present(h) {
			return h != nil
		}
		ended = append(ended, h)
	}
}

// present reports whether Redis has h; also when it does not say, unless h is a lease that is over
// as far as we know.
func (s *Service) present(h *hold) bool {
	l, err := s.inspect(h.lock(), s.deadline())
	if err != nil {
		return !h.spent()
	}
	_, ok := l.find(options{token: h.token})
	if !ok {
		s.watchdog.Check(&h.watch)
	}
	return ok
}

// first reports whether w is to be tried at once, whoever waits: it may be about a hold that its
// owner has. For one that shares the lock, such a hold must be known, here or to Redis, or readers
// that come now would overtake a writer that waits.
func (c *Carrier) first(w wish) bool {
	if !w.mode.shared {
		return w.owner != ""
	}
	own := c.service.find(w.lock(), func(h *hold) bool { return h.carrier == c || h.isOf(w.owner) })
	return own != nil || w.id != "" && c.service.mayOwn(w)
}

// mayOwn reports whether w's owner has a hold of the lock, which w then repeats as a rule; also
// when Redis does not say.
func (s *Service) mayOwn(w wish) bool {
	l, err := s.inspect(w.lock(), s.deadline())
	return err != nil || slices.ContainsFunc(l.holds, func(f found) bool { return f.owner == w.owner })
}

// enter is the carrier's hold of w's owner and mode, with its gate taken; nil when there is none.
// It fails when an earlier request about the hold has no answer yet.
func (c *Carrier) enter(w wish) (own *hold, ok bool) {
	if w.owner == "" {
		return nil, true
	}
	until := c.service.deadline()
	if !c.awaitSettled(w.lock(), w.mode, w.owner, until) {
		return nil, false
	}
	for {
		h := c.newest(w.lock(), func(h *hold) bool { return h.isOf(w.owner) && h.mode().like(w.mode) })
		if h == nil {
			return nil, true
		}
		if !h.open(until) {
			return nil, false
		}
		if h.spent() && !h.revived(until) {
			h.forget(held) // what Redis still has of it the grant replaces
		}
		if c.newest(w.lock(), func(other *hold) bool { return other == h }) != nil {
			return h, true
		}
		h.close() // it ended meanwhile
	}
}

func (c *Carrier) replyAcquire(ctx context.Context, dst []byte, t *try, r result) []byte {
	h, r := t.conclude(ctx, r)
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
func (t *try) conclude(ctx context.Context, r result) (*hold, result) {
	switch r.kind {
	case granted, moved:
		h, msg := t.settle(ctx, r)
		if msg == "" {
			return h, r
		}
		return nil, result{kind: unknown, text: msg}
	case unknown:
		switch m, s := t.move, t.carrier.service; {
		case m != nil:
			s.undoMoved(t, func() *hold { return m.finish(time.Now().Add(max(t.wish.ttl, maxLate))) })
		case t.repeats():
			s.undoRepeated(t)
		default:
			s.undo(t)
		}
		r.text = msgTimeout
	default:
		if t.late {
			t.carrier.service.undo(t)
		}
	}
	return nil, r
}

// timeout answers with an error and counts it.
func (c *Carrier) timeout(dst []byte, msg string) []byte {
	c.service.stats.timeouts.Add(1)
	return appendError(dst, msg)
}

// lookEvery is how often a waiter looks for itself, whatever it hears.
const lookEvery = time.Second

// lookAgain is how long a waiter trusts what it has seen: lookEvery, give or take a fifth, so that
// waiters of many Leashes do not fall into step; less when the holder's lease ends before, or when
// Redis just does not take requests (R17).
func (s *Service) lookAgain(r result, random float64) time.Duration {
	pause := time.Duration((0.8 + 0.4*random) * float64(s.every))
	if r.kind == busy {
		return pause / 10
	}
	if r.left > 0 {
		pause = min(pause, r.left+time.Millisecond)
	}
	return pause
}
