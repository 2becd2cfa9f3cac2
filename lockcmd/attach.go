package lockcmd

import (
	"context"
	"time"
)

const attachName = "LOCK.ATTACH"

// attaches reports whether w is of an ATTACH.
func (w wish) attaches() bool { return w.token != 0 }

func (s *Service) parseAttach(args [][]byte) (w wish, o options, msg string) {
	if len(args) < 2 {
		return w, o, msgArity(attachName)
	}
	if o, msg = parseOptions(args[2:], attachOptions); msg != "" {
		return w, o, msg
	}
	if _, msg = o.asked(); msg != "" {
		return w, o, msg
	}
	if o.owner == "" || o.token == 0 {
		return w, o, msgSyntax
	}
	w = wish{key: string(args[1]), owner: o.owner, token: o.token, ttl: s.cfg.WatchdogTimeout}
	return w, o, s.keyError(w.key)
}

// attach is LOCK.ATTACH: this connection carries the hold from now on, whichever did before, on
// whatever Leash. It reads who carries it, calls with what it read, and starts over if that has
// changed (R13).
func (c *Carrier) attach(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	w, o, msg := s.parseAttach(args)
	w.db = c.db
	switch {
	case msg != "":
		return appendError(dst, msg)
	case s.draining.Load():
		return appendError(dst, msgDraining)
	}
	until := s.deadline()
	for range 16 {
		r, again := c.tryAttach(w, o, until)
		for isApart(r) && time.Now().Before(until) && !s.stopped(together) {
			r, again = c.tryAttach(w, o, until)
		}
		switch {
		case r.kind == granted, r.kind == moved:
			return appendInt(dst, r.token)
		case r.kind == none:
			return c.replyAbsent(dst, w.key, o, until)
		case r.kind == unknown:
			return c.timeout(dst, msgAttachLater)
		case isApart(r):
			return c.timeout(dst, msgRefused)
		case r.kind == busy:
			return c.timeout(dst, r.text)
		case again && !time.Now().Before(until):
			return c.timeout(dst, msgRefused)
		case again:
			continue
		}
		return appendError(dst, r.text)
	}
	return appendError(dst, msgNotHeld)
}

// isApart reports whether a slot's migration kept the keys of a request apart.
func isApart(r result) bool { return r.kind == busy && r.text == "" }

// tryAttach attaches once. again says that what was read has changed meanwhile.
func (c *Carrier) tryAttach(w wish, o options, until time.Time) (r result, again bool) {
	s := c.service
	_, f, ok, err := s.seek(w.lock(), o, until)
	if err != nil {
		return failure(err), false
	}
	if !ok {
		return result{kind: none}, false
	}
	w.mode = f.mode
	own, ok := c.enter(w)
	if !ok {
		return result{kind: busy, text: msgRefused}, false
	}
	t := c.newTry(w, own)
	defer t.release()
	switch {
	case f.record.carrier != c.name:
	case own != nil && own.token == w.token:
		return result{kind: granted, token: w.token}, false
	default: // a release of it is under way, an undo, or an earlier ATTACH
		s.stopped(50 * time.Millisecond)
		return result{kind: failed, text: msgNotHeld}, c.mine(w.key, o) == nil
	}
	if own != nil {
		if r, lost := t.ownElsewhere(w.token, true, until); lost {
			return r, false
		}
	}
	return t.attach(f, until)
}

// attach moves the hold that was found to t's carrier. While the outcome is unknown it goes on with
// that in the background: what was moved must not be left to nobody.
func (t *try) attach(f found, until time.Time) (r result, again bool) {
	m := t.newMove(t.wish.token, f.record.carrier, f.record.request)
	r = m.send(until)
	switch r.kind {
	case unknown:
		settled := t.carrier.unsettle(t.wish.lock(), t.wish.mode, t.owner)
		t.carrier.service.spawn(func() {
			defer settled()
			m.finish(time.Now().Add(max(millis(f.record.ttl), t.wish.ttl)))
		})
		return r, false
	case moved:
		if _, msg := t.carry(r); msg != "" {
			r = result{kind: busy, text: msg}
		}
	case failed:
		if r.text == msgElsewhere {
			r.text, again = msgNotHeld, true
		}
	}
	m.close()
	return r, again
}

// finish repeats the move until Redis answers, or the hold must be over. It returns the hold, nil
// when it is not carried here.
func (m *move) finish(limit time.Time) *hold {
	defer m.close()
	s := m.try.carrier.service
	for time.Now().Before(limit) {
		r := m.send(s.deadline())
		switch r.kind {
		case unknown, busy:
			if s.stopped(100 * time.Millisecond) {
				return nil
			}
			continue
		case moved:
			h, _ := m.try.carry(r)
			return h
		}
		return nil
	}
	return nil
}

// carry makes a hold that has moved here one of the carrier's. If its connection has ended
// meanwhile, it is settled as that says. A nonempty message is the error to answer, and there is no
// hold.
func (t *try) carry(r result) (h *hold, msg string) {
	c := t.carrier
	t.freshen(&r)
	h, until := t.hold(r)
	if !time.Now().Before(until) {
		return nil, msgShort
	}
	if c.hang(context.Background(), h, r.record.lastID(), true, until) {
		return h, ""
	}
	c.mu.Lock()
	ends := h.endsWithLocked(c.how)
	c.mu.Unlock()
	if ends {
		c.service.endLoose(h)
	} else {
		c.service.limits.leave(c, []*hold{h}, time.Time{})
	}
	return nil, msgGone
}
