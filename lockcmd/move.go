package lockcmd

import (
	"context"
	"errors"
	"time"

	"leash/renewal"
)

// move is the way of a hold from another carrier to this one, at its owner's wish: by ATTACH, or
// since try repeats the request that was the hold's last (R4). The old carrier is told.
type move struct {
	try *try
	// when this Leash carries it; its gate is ours while a request is under way, and while its
	// outcome is unknown
	old     *hold
	gate    bool          // is ours
	keep    time.Duration // of the old carrier's tombstone
	request *request

	// the old carrier's tombstone and the new one's, once there was a request with one key a call
	stones []string
	laid   bool // the old carrier's may say that the hold has moved, though nobody knows so yet
}

// newMove makes the move of t's owner's hold with that token from a carrier, whose last request
// about it had the number last, if it is not "".
func (t *try) newMove(token int64, from, last string) *move {
	c, w := t.carrier, t.wish
	s := c.service
	m := &move{try: t, old: s.find(w.lock(), func(h *hold) bool { return h.token == token && h.carrier.name == from })}
	m.keep = max(w.ttl, s.cfg.WatchdogTimeout)
	text, id := movedText, ""
	if !w.attaches() {
		text, id = repeatedText, recordID(w.id)
	}
	channel, news := "", ""
	if m.old == nil {
		channel, news = carrierChannel(from), newsText(text, token, from, w.key)
	}
	m.request = &request{
		script: w.mode.move, db: w.db,
		keys: w.mode.keys(w.key, t.owner, tombstoneKey(w.key, token, from), tombstoneKey(w.key, token, c.name)),
		args: words(
			t.owner, token, from, last, id, c.name, t.number, recordClient(c.host.Client()), text+" "+c.name,
			m.keep.Milliseconds(), channel, news,
		),
	}
	return m
}

// send carries the move out.
func (m *move) send(until time.Time) result {
	if m.old != nil && !m.gate {
		if m.gate = m.old.open(until); !m.gate {
			return result{kind: busy, text: msgRefused}
		}
	}
	m.request.copies, m.request.patience = m.try.wish.replicas, m.try.replicaPatience()
	reply, err := m.try.carrier.service.ask(m.request, until)
	if tryAgain(err) {
		reply, err = m.piecemeal(until)
	}
	m.settleStones(reply, err)
	if err != nil {
		return failure(err)
	}
	n := numbers(reply)
	if n[0] != 1 || len(n) < 6 {
		return result{kind: failed, text: msgElsewhere}
	}
	r, _ := parseRecord(word(reply, 5))
	age := max(millis(n[4]), 0) // below 0 after a step back of Redis's clock
	if left := m.unspent(); left < maxTTL {
		age = r.terms().max - left
	}
	switch {
	case m.old == nil:
	case m.try.wish.attaches():
		m.old.Ended(renewal.Moved)
	default:
		m.old.Ended(renewal.Repeated)
	}
	return result{kind: moved, token: n[1], left: millis(n[2]), sent: m.request.sent, copied: m.request.copied, count: n[3], age: age, record: r}
}

// unspent is what MAXHOLD leaves of the old hold, if that hangs on a connection of this Leash; else
// maxTTL.
func (m *move) unspent() time.Duration {
	if m.old == nil {
		return maxTTL
	}
	return m.old.unspent(m.request.sent)
}

// piecemeal does what move.lua does with one key a call, for a slot in migration (R14). The old
// carrier's tombstone is laid first: when it finds the hold gone, it must find the reason too.
func (m *move) piecemeal(until time.Time) (any, error) {
	t, all := m.try, m.request.keys
	own := len(t.wish.mode.keys(t.wish.key, t.owner))
	if len(all) == own {
		return nil, errRefused
	}
	s := t.carrier.service
	m.stones, m.laid = all[own:], true
	if _, err := s.number(m.tombstone(m.keep), until); err != nil {
		return nil, errors.Join(errRefused, err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.within(until))
	defer cancel()
	if err := s.database(t.wish.db).Del(ctx, m.stones[1]).Err(); err != nil {
		return nil, errors.Join(errRefused, err)
	}
	m.request.keys = all[:own]
	return s.ask(m.request, until)
}

// tombstone is the request to lay the old carrier's for so long, saying that the hold may have
// moved, or with 0 to take it away. Another one that says more stays.
func (m *move) tombstone(keep time.Duration) *request {
	return &request{script: engraveScript, db: m.try.wish.db, keys: m.stones[:1], args: words(m.text()+perhaps, keep.Milliseconds())}
}

// text is what the old carrier's tombstone says once the hold has moved.
func (m *move) text() string { return m.request.args[8] }

// settleStones leaves the old carrier's tombstone as it is to stay after a request with one key a
// call. If the hold has moved, it says so whatever it said before, also for those on other Leashes
// who wait for the hold's loss. Else it says nothing of that. What cannot be done soon is left to
// time.
func (m *move) settleStones(reply any, err error) {
	s := m.try.carrier.service
	switch {
	case m.stones == nil:
	case err == nil && numbers(reply)[0] == 1:
		ctx, cancel := context.WithTimeout(context.Background(), s.stonePatience())
		defer cancel()
		s.database(m.try.wish.db).Set(ctx, m.stones[0], m.text(), m.keep)
	case m.laid && (err == nil || !m.request.doubt):
		if _, err := s.number(m.tombstone(0), time.Now().Add(s.stonePatience())); err == nil {
			m.laid = false
		}
	}
}

// close gives the old hold's gate back.
func (m *move) close() {
	if m.gate {
		m.gate = false
		m.old.close()
	}
}
