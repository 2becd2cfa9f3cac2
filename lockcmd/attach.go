package lockcmd

import (
	"context"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
)

const attachName = "LOCK.ATTACH"

// migrationPause is the pause between two attempts while a slot migration splits the keys.
const migrationPause = 50 * time.Millisecond

func (s *Service) parseAttach(args [][]byte) (opts acquireOptions, o options, msg string) {
	key, o, msg := s.parse(attachName, args, attachWords)
	if msg == "" && (o.Owner == "" || o.Token == 0) {
		msg = msgSyntax
	}
	return acquireOptions{key: key, owner: o.Owner, token: o.Token, ttl: s.cfg.WatchdogTimeout}, o, msg
}

// attach runs LOCK.ATTACH: this connection becomes the carrier of a hold of any connection and any
// Leash. It reads who the carrier is, calls the script with that, and starts again if it has
// changed (R13).
func (c *Carrier) attach(_ context.Context, dst []byte, args [][]byte) []byte {
	s := c.service
	opts, o, msg := s.parseAttach(args)
	opts.db = c.db
	switch {
	case msg != "":
		return appendError(dst, msg)
	case c.grantsNothing():
		return appendError(dst, msgDraining)
	}
	until := s.deadline()
	for range 16 {
		r, again := c.tryAttach(opts, o, until)
		for isMigrating(r) && time.Now().Before(until) && !s.redis.StoppedWithin(migrationPause) {
			r, again = c.tryAttach(opts, o, until)
		}
		switch {
		case r.kind == granted, r.kind == moved:
			return appendInt(dst, r.token)
		case r.kind == none:
			return c.replyAbsent(dst, opts.key, o, until)
		case r.kind == unknown:
			return c.timeout(dst, msgAttachLater)
		case isMigrating(r):
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

// isMigrating reports whether a slot migration has the keys of a request on two nodes.
func isMigrating(r result) bool { return r.kind == busy && r.text == "" }

// tryAttach attaches once. again is true when the hold has changed since it was read.
func (c *Carrier) tryAttach(opts acquireOptions, o options, until time.Time) (r result, again bool) {
	s := c.service
	_, f, ok, err := s.restorer.Seek(opts.lock(), o.Selector, until)
	if err != nil {
		return failure(err), false
	}
	if !ok {
		return result{kind: none}, false
	}
	opts.mode = f.Mode
	own, ok := c.lockOwnHold(opts)
	if !ok {
		return result{kind: busy, text: msgRefused}, false
	}
	a := c.newAcquisition(opts, own)
	defer a.unlockOwn()
	switch {
	case f.Record.Carrier != c.Name:
	case own != nil && own.Token == opts.token:
		return result{kind: granted, token: opts.token}, false
	default: // a release, an undo or an ATTACH of it is in progress
		s.redis.StoppedWithin(50 * time.Millisecond)
		return result{kind: failed, text: msgNotHeld}, c.ownHold(opts.key, o) == nil
	}
	if own != nil {
		if r, lost := a.ownElsewhere(opts.token, true, until); lost {
			return r, false
		}
	}
	return a.attach(f, until)
}

// attach moves the hold that was found to this carrier. An unknown outcome is repeated in the
// background, because a moved hold must have a carrier that knows of it.
func (a *acquisition) attach(f script.Hold, until time.Time) (r result, again bool) {
	m := a.newMove(a.options.token, f.Record.Carrier, f.Record.Request)
	r = a.sendMove(m, until)
	switch r.kind {
	case unknown:
		moveDone := a.carrier.beginMove(a.options.lock(), a.options.mode, a.owner)
		a.carrier.service.spawn(func() {
			defer moveDone()
			a.finish(m, time.Now().Add(max(script.Millis(f.Record.TTL), a.options.ttl)))
		})
		return r, false
	case moved:
		if _, msg := a.carry(r); msg != "" {
			r = result{kind: busy, text: msg}
		}
	case failed:
		if r.text == msgElsewhere {
			r.text, again = msgNotHeld, true
		}
	}
	m.Unlock()
	return r, again
}

// finish repeats a move until Redis answers or the hold must be over. It returns the hold, or nil
// when this carrier does not have it.
func (a *acquisition) finish(m *restore.Move, limit time.Time) *hold.Hold {
	defer m.Unlock()
	s := a.carrier.service
	for time.Now().Before(limit) {
		r := a.sendMove(m, s.deadline())
		switch r.kind {
		case unknown, busy:
			if s.redis.StoppedWithin(100 * time.Millisecond) {
				return nil
			}
			continue
		case moved:
			h, _ := a.carry(r)
			return h
		}
		return nil
	}
	return nil
}

// carry makes a hold that has moved here one of the carrier's. If the connection has ended in
// between, the hold is settled the way that connection ended. A nonempty message is the error to
// answer; then there is no hold.
func (a *acquisition) carry(r result) (h *hold.Hold, msg string) {
	c := a.carrier
	a.renewLateGrant(&r)
	h, until := a.hold(r)
	if !time.Now().Before(until) {
		return nil, msgShort
	}
	if c.attachHold(context.Background(), h, r.record.LastID(), true, until) {
		return h, ""
	}
	h.Close()
	return nil, msgGone
}
