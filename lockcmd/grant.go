package lockcmd

import (
	"context"
	"time"

	"leash/renewal"
)

// settle makes a granted result a hold of the carrier. With a nonempty message, the error to
// answer, it fails and the grant is given back: it was over before it was known, or nobody can be
// told of it any more. Grant and disconnect are decided under the carrier's mutex (R19).
func (t *try) settle(ctx context.Context, r result) (h *hold, msg string) {
	s, c := t.carrier.service, t.carrier
	t.freshen(&r)
	h, until := t.hold(r)
	if renewal.Left(until) <= 0 {
		s.undo(t)
		return nil, msgShort
	}
	if !c.hang(ctx, h, t.wish.id, !r.again, until) {
		if r.kind == moved { // its other acquires are the owner's
			s.undoMoved(t, func() *hold { h, _ := t.carry(r); return h })
		} else {
			t.giveBack(h)
		}
		return nil, msgGone
	}
	s.stats.acquires.Add(1)
	if t.late {
		s.spawn(func() { s.undoLater(t, h) })
	}
	return h, ""
}

// freshen renews a grant whose answer took long to come, so that it does not begin its life half
// over.
func (t *try) freshen(r *result) {
	s, ttl, lease := t.carrier.service, t.wish.ttl, t.wish.lease
	if r.kind == moved {
		ttl, lease = max(ttl, millis(r.record.ttl)), r.record.terms().lease
	}
	if lease || renewal.Left(renewal.Until(r.sent, r.left)) > ttl/2 {
		return
	}
	again := &request{
		script: t.wish.mode.renew, db: t.wish.db, keys: t.wish.mode.keys(t.wish.key, t.owner),
		args: words(ttl.Milliseconds(), t.owner, mark(r.token, t.carrier.name)),
	}
	reply, err := s.ask(again, s.deadline())
	if n := numbers(reply); err == nil && len(n) == 1 && n[0] > 0 {
		later := again.sent.Sub(r.sent)
		r.sent, r.age, r.left = again.sent, r.age+later, max(ttl, r.left-later)
	}
}

// hang makes h, granted or entered again by an acquire of that ID and safe until then, a hold of
// the carrier, unless its client is gone. counts says whether an entry is one more acquire, and no
// repetition of the last.
func (c *Carrier) hang(ctx context.Context, h *hold, id string, counts bool, until time.Time) bool {
	s := c.service
	c.guard(1)
	c.mu.Lock()
	fresh := h.state == granting
	ok := !c.ended && ctx.Err() == nil && (fresh || h.state == held)
	if ok && !fresh && counts {
		h.count = counted(int64(h.count) + 1)
	}
	if ok && h.rare().last != id {
		h.more().last = id
	}
	if ok && fresh {
		h.state = held
		c.takeLocked(h)
		h.startTimerLocked()
		c.watchIdleLocked(h)
		c.greetLocked(h)
		s.stats.holds.Add(1)
	}
	if ok {
		s.watchdog.Add(&h.watch, h.plan(until))
		c.expectLocked(h, until)
	}
	if ok && fresh {
		s.index(h) // last: from now on news of it is heeded
	}
	c.mu.Unlock()
	if ok && fresh {
		s.catchUp(h)
		h.lookIfWanted()
		s.inherit(h)
	}
	if !ok || !fresh {
		c.guard(-1)
	}
	return ok
}

// hold is the hold a result stands for, and until when it is safe.
func (t *try) hold(r result) (*hold, time.Time) {
	c, w := t.carrier, t.wish
	until := renewal.Until(r.sent, r.left)
	if h := t.own; h != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.again {
			return h, until
		}
		if !w.lease && h.lease {
			h.lease, h.ttl = false, w.ttl
		} else if w.lease == h.lease {
			h.ttl = max(h.ttl, w.ttl)
		}
		return h, until
	}
	h := &hold{
		carrier: c, kind: w.mode.id, db: int32(w.db), naming: numbered(w.key, t.minted), token: r.token, count: 1, manner: w.manner, ttl: w.ttl,
	}
	if t.minted == 0 {
		h.naming = named(w.key, t.owner)
	}
	h.watch.Keeper = h
	x := extra{max: w.max, idle: w.idle, bundle: t.bundle, handed: r.handed}
	if r.kind == moved { // its owner has known of it for long
		terms := r.record.terms()
		if w.mode != permit {
			h.afar = watched // perhaps
		}
		h.manner, h.ttl, h.count, x = terms.manner, millis(r.record.ttl), counted(r.count), extra{max: terms.max, idle: terms.idle, moves: r.record.moves()}
	}
	if x.max > 0 && x.bundle == nil { // of one that others must be added to it counts when they are
		x.limit = r.sent.Add(x.max - r.age)
	}
	if x.max > 0 || x.idle > 0 || x.moves > 0 || x.handed > 0 || x.bundle != nil {
		kept := x // or every x would be on the heap
		h.extra = &kept
	}
	return h, until
}

// giveBack ends a grant that nobody can be told of: a new hold is released, and what a late copy of
// its acquire may take later; of one that was entered again, one count is taken back, or all of it
// goes the way its connection's end has decided.
func (t *try) giveBack(h *hold) {
	s := t.carrier.service
	if h == t.own {
		s.undo(t)
		return
	}
	s.endLoose(h)
	if t.late {
		s.spawn(func() { s.undoLater(t, h) })
	}
}
