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
	requestsLocked bool          // the requests of old
	keep           time.Duration // lifetime of the old carrier's tombstone
	call           *script.Call

	before, after    script.Ref // the hold of the old and of the new carrier
	text             string     // the old carrier's tombstone after the move
	perKey           bool       // a request with one key a call was sent
	tombstoneWritten bool       // the old tombstone may say "moved" before that is certain
}

// newMove makes a move of the owner's hold with that token from a carrier. last is the number of
// that carrier's last request about it, or "".
func (a *acquisition) newMove(token int64, from, last string) *move {
	c, opts := a.carrier, a.options
	s := c.service
	m := &move{acquisition: a, old: s.find(opts.lock(), func(h *hold) bool { return h.token == token && h.carrier.name == from })}
	m.keep = max(opts.ttl, s.cfg.WatchdogTimeout)
	text, id := event.Moved, ""
	if !opts.attaches() {
		text, id = event.Repeated, script.RecordID(opts.id)
	}
	channel, told := "", ""
	if m.old == nil {
		channel, told = script.CarrierChannel(from), event.Text(text, token, from, opts.key)
	}
	m.before = script.Ref{Lock: opts.lock().inRedis(), Token: token, Carrier: from}
	m.after = script.Ref{Lock: opts.lock().inRedis(), Token: token, Carrier: c.name}
	m.text = text + " " + c.name
	m.call = &script.Call{
		Script: opts.mode.Move, DB: opts.db,
		Keys: opts.mode.Keys(opts.key, a.owner, script.TombstoneKey(opts.key, token, from), script.TombstoneKey(opts.key, token, c.name)),
		Args: script.Args(
			a.owner, token, from, last, id, c.name, a.number, script.RecordClient(c.host.Client()), m.text,
			m.keep.Milliseconds(), channel, told,
		),
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
	m.call.WantReplicas, m.call.ReplicaTimeout = m.acquisition.options.replicas, m.acquisition.replicaWait()
	reply, err := m.acquisition.carrier.service.redis.Ask(m.call, until)
	if script.KeysSplit(err) {
		reply, err = m.sendPerKey(until)
	}
	m.settleTombstones(reply, err)
	if err != nil {
		return failure(err)
	}
	n := script.IntegersOf(reply)
	if n[0] != 1 || len(n) < 6 {
		return result{kind: failed, text: msgElsewhere}
	}
	r, _ := script.ParseRecord(script.TextAt(reply, 5))
	age := max(script.Millis(n[4]), 0) // negative after a step back of Redis's clock
	if left := m.maxHoldLeft(); left < script.MaxTTL {
		age = r.Terms().MaxHold - left
	}
	switch {
	case m.old == nil:
	case m.acquisition.options.attaches():
		m.old.Ended(renewal.Moved)
	default:
		m.old.Ended(renewal.Repeated)
	}
	return result{kind: moved, token: n[1], left: script.Millis(n[2]), sent: m.call.Sent, replicas: m.call.GotReplicas, count: n[3], age: age, record: r}
}

// maxHoldLeft is what is left of MAXHOLD if this Leash has the old hold; else script.MaxTTL.
func (m *move) maxHoldLeft() time.Duration {
	if m.old == nil {
		return script.MaxTTL
	}
	return m.old.maxHoldLeft(m.call.Sent)
}

// sendPerKey does what move.lua does with one key a call, for a slot migration (R14). It writes the
// old carrier's tombstone first: when that Leash finds the hold missing, it must find the reason.
func (m *move) sendPerKey(until time.Time) (any, error) {
	a, all := m.acquisition, m.call.Keys
	own := len(a.options.mode.Keys(a.options.key, a.owner))
	if len(all) == own {
		return nil, script.ErrRefused
	}
	s := a.carrier.service
	m.perKey, m.tombstoneWritten = true, true
	if _, err := m.writeTombstone(m.keep, until); err != nil {
		return nil, errors.Join(script.ErrRefused, err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.redis.CapAtStop(until))
	defer cancel()
	if err := s.redis.RemoveTombstone(ctx, m.after); err != nil {
		return nil, errors.Join(script.ErrRefused, err)
	}
	m.call.Keys = all[:own]
	return s.redis.Ask(m.call, until)
}

// writeTombstone writes the old carrier's tombstone, saying that the hold may have moved, or
// removes it with a keep of 0. A tombstone that says more stays.
func (m *move) writeTombstone(keep time.Duration, until time.Time) (written bool, err error) {
	return m.acquisition.carrier.service.redis.WriteTombstone(m.before, m.text+event.PerhapsSuffix, keep, "", until)
}

// settleTombstones finishes the old carrier's tombstone after requests with one key a call. After a
// move it overwrites any text, because watchers on other Leashes read it too. Otherwise it removes
// its own text. What it cannot do soon expires by itself.
func (m *move) settleTombstones(reply any, err error) {
	s := m.acquisition.carrier.service
	switch {
	case !m.perKey:
	case err == nil && script.IntegersOf(reply)[0] == 1:
		ctx, cancel := context.WithTimeout(context.Background(), s.tombstoneTimeout())
		defer cancel()
		s.redis.OverwriteTombstone(ctx, m.before, m.text, m.keep)
	case m.tombstoneWritten && (err == nil || !m.call.OutcomeUnknown):
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
