package lockcmd

import (
	"context"
	"errors"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/script"
	"leash/renewal"
)

// move takes a hold from another carrier to this one, as its owner wants: by ATTACH, or by an
// acquire that repeats the hold's last request (R4). The old carrier is told.
type move struct {
	acquisition *acquisition
	// the hold on this Leash, if it is here. Its requests stay locked during a request and while
	// the outcome is unknown.
	old            *hold
	requestsLocked bool // the requests of old
	args           script.MoveArgs

	after            script.Ref // the hold of the new carrier
	perKey           bool       // a request with one key a call was sent
	tombstoneWritten bool       // the old tombstone may say "moved" before that is certain
}

// newMove makes a move of the owner's hold with that token from a carrier. last is the number of
// that carrier's last request about it, or "".
func (a *acquisition) newMove(token int64, from, last string) *move {
	c, opts := a.carrier, a.options
	s := c.service
	m := &move{acquisition: a, old: s.find(opts.lock(), func(h *hold) bool {
		return h.token == token && h.carrier.name == from
	})}
	text, id := event.Moved, ""
	if !opts.attaches() {
		text, id = event.Repeated, script.RecordID(opts.id)
	}
	told := ""
	if m.old == nil {
		told = event.Text(text, token, from, opts.key)
	}
	m.after = script.Ref{Lock: opts.lock(), Token: token, Carrier: c.name}
	m.args = script.MoveArgs{
		Mode: opts.mode, Owner: a.owner, From: script.Ref{Lock: opts.lock(), Token: token, Carrier: from},
		Last: last, ID: id, Carrier: c.name, Request: a.number, Client: c.clientName(),
		Tombstone: text + " " + c.name, Keep: max(opts.ttl, s.cfg.WatchdogTimeout), Event: told,
	}
	return m
}

// send sends the move.
func (m *move) send(until time.Time) result {
	if m.old != nil && !m.requestsLocked {
		if m.requestsLocked = m.old.lockRequests(until); !m.requestsLocked {
			return result{kind: busy, text: msgRefused}
		}
	}
	m.args.Replicas, m.args.ReplicasIn = m.acquisition.options.replicas, m.acquisition.replicaWait()
	r, err := m.acquisition.carrier.service.redis.Move(&m.args, until)
	if script.KeysSplit(err) {
		r, err = m.sendPerKey(until)
	}
	m.settleTombstones(r.Moved, err)
	if err != nil {
		return failure(err)
	}
	if !r.Moved {
		return result{kind: failed, text: msgElsewhere}
	}
	age := max(r.Age, 0)
	if m.old != nil {
		if left := m.old.maxHoldLeft(r.Sent); left < script.MaxTTL {
			age = r.Record.Terms().MaxHold - left
		}
	}
	switch {
	case m.old == nil:
	case m.acquisition.options.attaches():
		m.old.Ended(renewal.Moved)
	default:
		m.old.Ended(renewal.Repeated)
	}
	return result{
		kind: moved, token: r.Token, left: r.Left, sent: r.Sent, replicas: r.Replicas, count: r.Count, age: age,
		record: r.Record,
	}
}

// sendPerKey does what move.lua does with one key a call, for a slot migration (R14). It writes the
// old carrier's tombstone first: when that Leash finds the hold missing, it must find the reason.
func (m *move) sendPerKey(until time.Time) (r script.MoveResult, err error) {
	if m.args.OwnKeys {
		return r, script.ErrRefused
	}
	s := m.acquisition.carrier.service
	m.perKey, m.tombstoneWritten = true, true
	if _, err := m.writeTombstone(m.args.Keep, until); err != nil {
		return r, errors.Join(script.ErrRefused, err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.redis.CapAtStop(until))
	defer cancel()
	if err := s.redis.RemoveTombstone(ctx, m.after); err != nil {
		return r, errors.Join(script.ErrRefused, err)
	}
	m.args.OwnKeys = true
	return s.redis.Move(&m.args, until)
}

// writeTombstone writes the old carrier's tombstone, saying that the hold may have moved, or
// removes it with a keep of 0. A tombstone that says more stays.
func (m *move) writeTombstone(keep time.Duration, until time.Time) (written bool, err error) {
	return m.acquisition.carrier.service.redis.WriteTombstone(m.args.From, m.args.Tombstone+event.PerhapsSuffix,
		keep, "", until)
}

// settleTombstones finishes the old carrier's tombstone after requests with one key a call. After a
// move it overwrites any text, because watchers on other Leashes read it too. Otherwise it removes
// its own text. What it cannot do soon expires by itself.
func (m *move) settleTombstones(moved bool, err error) {
	s := m.acquisition.carrier.service
	switch {
	case !m.perKey:
	case moved:
		ctx, cancel := context.WithTimeout(context.Background(), s.tombstoneTimeout())
		defer cancel()
		s.redis.OverwriteTombstone(ctx, m.args.From, m.args.Tombstone, m.args.Keep)
	case m.tombstoneWritten && (err == nil || !m.args.Unknown):
		if _, err := m.writeTombstone(0, time.Now().Add(s.tombstoneTimeout())); err == nil {
			m.tombstoneWritten = false
		}
	}
}

// unlockOld unlocks the requests of the old hold.
func (m *move) unlockOld() {
	if m.requestsLocked {
		m.requestsLocked = false
		m.old.unlockRequests()
	}
}
