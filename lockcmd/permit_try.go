package lockcmd

import (
	"context"
	"errors"
	"strconv"
	"time"

	"leash/renewal"
)

// permitTry is one SEM.ACQUIRE on its way: however often it is sent, it acts once.
type permitTry struct {
	carrier *Carrier
	wish    wish     // its owner is nobody's
	permits []string // all, or none of them
	number  int64
	late    bool // a copy of it may still reach Redis, after it is over
	request *request
	moved   []*hold // from other connections, by the ID
	grants  []int64 // once granted: of each permit its token and for how many ms its lease lasts
}

func (c *Carrier) newPermitTry(w wish, count int64) *permitTry {
	s := c.service
	t := &permitTry{carrier: c, wish: w, permits: newPermits(w.key, w.id, count), number: c.requests.Add(1)}
	args := words(
		c.name, t.number, w.ttl.Milliseconds(), w.options(), recordID(w.id), recordClient(c.host.Client()), permitChannel(w.key),
		s.cfg.publishMode(), s.graces.may(w.key),
	)
	for _, p := range t.permits {
		args = append(args, p, decimal(s.owners.Add(1)))
	}
	t.request = &request{script: permitAcquireScript, db: w.db, keys: semaphoreKeys(w.key), args: args}
	return t
}

// permitMayArg is as mayArg, for permits.
const permitMayArg = 8

// send looks once whether there are so many permits. Those that hang on another connection, under
// the same ID, are moved to this one first. What is not known at until is unknown.
func (t *permitTry) send(until time.Time) result {
	for range len(t.permits) + 1 + maxBars {
		t.request.args[permitMayArg] = t.carrier.service.graces.may(t.wish.key)
		reply, err := t.carrier.service.ask(t.request, until)
		t.late = t.late || t.request.doubt
		t.request.doubt = false
		if err != nil {
			return failure(err)
		}
		n := numbers(reply)
		switch {
		case n[0] == 0 && len(n) > 1:
			return result{kind: taken, left: millis(n[1])}
		case n[0] == 1 && len(n) == 2+2*len(t.permits):
			t.grants = n[2:]
			return result{kind: granted, rest: n[1], sent: t.request.sent}
		case n[0] == 6:
			if r, again := t.carrier.service.bar(t.wish.key, word(reply, 1), until); !again {
				return r
			}
			continue
		case n[0] != 2:
			return result{kind: unknown}
		}
		if r := t.fetch(word(reply, 1), word(reply, 2), word(reply, 3), until); r.kind != moved {
			return r
		}
	}
	return result{kind: failed, text: msgElsewhere}
}

// fetch moves a permit from another carrier to this one. It is a hold of this connection from then
// on.
func (t *permitTry) fetch(id, token, carrier string, until time.Time) result {
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil || t.wish.id == "" {
		return result{kind: failed, text: msgElsewhere}
	}
	if msg := t.superseded(id, n, until); msg != "" {
		return result{kind: failed, text: msg}
	}
	one := &try{carrier: t.carrier, wish: t.wish, owner: id, number: t.carrier.requests.Add(1)}
	m := one.newMove(n, carrier, "")
	r := m.send(until)
	if r.kind == unknown {
		t.undoMove(m)
		return r
	}
	defer m.close()
	if r.kind == moved {
		h, msg := one.carry(r)
		if msg != "" {
			return result{kind: failed, text: msg}
		}
		t.moved = append(t.moved, h)
	}
	return r
}

// undoMove finishes the move of a permit, whose outcome is unknown, and gives it back.
func (t *permitTry) undoMove(m *move) {
	s, settled := t.carrier.service, t.carrier.unsettle(t.wish.lock(), permit, m.try.owner)
	s.spawn(func() {
		defer settled()
		if h := m.finish(time.Now().Add(max(t.wish.ttl, maxLate))); h != nil {
			s.putBack(h, "")
		}
	})
}

// superseded settles the hold of a permit in which this connection believes, when Redis has one of
// it with another token, or on another carrier: it was ended or moved by another way of the
// owner's; or it is lost, and a nonempty message is the error to answer (R26).
func (t *permitTry) superseded(id string, token int64, until time.Time) (msg string) {
	s, own := t.carrier.service, t.carrier.newest(t.wish.lock(), isPermit(id))
	if own == nil {
		return ""
	}
	how := renewal.Repeated
	if own.token != token {
		var err error
		if how, err = s.tombstone(own, until); err != nil {
			return msgRefused
		}
	}
	switch {
	case rightful(how):
		own.Ended(how)
		return ""
	case own.leaseOver(s.watchdog.Until(&own.watch)):
		own.Ended(renewal.Expired)
		return ""
	}
	own.Lost(renewal.ReasonGone)
	return msgLost(own.key(), renewal.ReasonGone)
}

// settle makes the permits granted holds of the carrier. With a nonempty message, the error to
// answer, it fails and they are given back.
func (t *permitTry) settle(ctx context.Context, sent time.Time) (msg string) {
	s, c := t.carrier.service, t.carrier
	fresh, until, msg := t.fresh(sent)
	if msg == "" && !c.hangAll(ctx, fresh, until) {
		msg = msgGone
	}
	if msg != "" {
		t.undo()
		return msg
	}
	s.stats.acquires.Add(1)
	if t.late {
		s.spawn(func() { t.undoLater(t.newest()) })
	}
	return ""
}

// fresh are the holds that the grant makes, beside those that the connection has, and until when
// they are safe.
func (t *permitTry) fresh(sent time.Time) (holds []*hold, until []time.Time, msg string) {
	for i, p := range t.permits {
		token, end := t.grants[2*i], renewal.Until(sent, millis(t.grants[2*i+1]))
		if renewal.Left(end) <= 0 {
			return nil, nil, msgShort
		}
		if t.wish.id != "" { // else they are new
			if own := t.carrier.newest(t.wish.lock(), isPermit(p)); own != nil && own.token == token {
				continue
			}
			if msg := t.superseded(p, token, t.carrier.service.deadline()); msg != "" {
				return nil, nil, msg
			}
		}
		holds, until = append(holds, t.hold(p, token)), append(until, end)
	}
	return holds, until, ""
}

func (t *permitTry) hold(id string, token int64) *hold {
	w := t.wish
	h := &hold{
		carrier: t.carrier, kind: permit.id, db: int32(w.db), naming: named(w.key, id), token: token, count: 1, manner: w.manner, ttl: w.ttl,
	}
	if w.id != "" {
		h.more().last = w.id
	}
	h.watch.Keeper = h
	return h
}

// hangAll makes new holds, safe until then, holds of the carrier, unless its client is gone: all or
// none (R19).
func (c *Carrier) hangAll(ctx context.Context, holds []*hold, until []time.Time) bool {
	s := c.service
	c.guard(len(holds))
	c.mu.Lock()
	ok := !c.ended && ctx.Err() == nil
	for i, h := range holds {
		if !ok {
			break
		}
		h.state = held
		c.takeLocked(h)
		s.stats.holds.Add(1)
		s.watchdog.Add(&h.watch, h.plan(until[i]))
		c.expectLocked(h, until[i])
		c.greetLocked(h)
		s.index(h) // last: from now on news of it is heeded
	}
	c.mu.Unlock()
	if !ok {
		c.guard(-len(holds))
		return false
	}
	for _, h := range holds {
		s.catchUp(h)
	}
	return true
}

// undo gives back what the try took, or may have taken, and what it has moved here: at once and
// until Redis answers, and once more a TTL later, for a late copy of it (R26).
func (t *permitTry) undo() {
	s := t.carrier.service
	s.stats.undone.Add(1)
	for _, h := range t.moved {
		settled := t.carrier.unsettle(t.wish.lock(), permit, h.owner())
		s.spawn(func() {
			defer settled()
			s.putBack(h, "")
		})
	}
	settled := t.unsettle()
	s.spawn(func() {
		t.takeBack(t.permits, 0)
		settled()
		t.undoLater(0)
	})
}

// unsettle makes acquires of the same ID by this connection wait until settled is called: the
// permit that such a one would find in Redis, and so have, is the one that is given back.
func (t *permitTry) unsettle() (settled func()) {
	if t.wish.id == "" {
		return func() {}
	}
	all := make([]func(), len(t.permits))
	for i, p := range t.permits {
		all[i] = t.carrier.unsettle(t.wish.lock(), permit, p)
	}
	return func() {
		for _, settled := range all {
			settled()
		}
	}
}

// newest is the largest token of what was granted.
func (t *permitTry) newest() (token int64) {
	for i := 0; i+1 < len(t.grants); i += 2 {
		token = max(token, t.grants[i])
	}
	return token
}

// undoLater gives back what a late copy of the try may have taken: what nobody holds. What was
// granted with the token keep, or one before, stays: when the connection broke it was left to run
// out (R28).
func (t *permitTry) undoLater(keep int64) {
	s := t.carrier.service
	if s.stopped(min(t.wish.ttl, maxLate)) {
		return
	}
	var loose []string
	for _, p := range t.permits {
		if s.find(t.wish.lock(), isPermit(p)) == nil {
			loose = append(loose, p)
		}
	}
	if len(loose) > 0 {
		t.takeBack(loose, keep)
	}
}

func (t *permitTry) takeBack(permits []string, keep int64) {
	s := t.carrier.service
	r := &request{script: permitUndoScript, db: t.wish.db, keys: semaphoreKeys(t.wish.key)}
	r.args = words(t.carrier.name, t.number, permitChannel(t.wish.key), s.cfg.publishMode(), keep)
	r.args = append(r.args, permits...)
	for {
		_, err := s.ask(r, s.deadline())
		if !errors.Is(err, errUnknown) && !errors.Is(err, errRefused) || s.stopped(time.Second) {
			return
		}
	}
}
