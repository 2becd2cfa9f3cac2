package lockcmd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// move takes a hold from another carrier to this one, as its owner wants: by ATTACH, or by an
// acquire that repeats the hold's last request (R4). The old carrier is told.
type move struct {
	service  *Service
	attaches bool      // by ATTACH
	replicas int64     // that must have it
	end      time.Time // end of BLOCK; zero without
	// the hold on this Leash, if it is here. Its requests stay locked during a request and while
	// the outcome is unknown.
	old            *hold.Hold
	requestsLocked bool // the requests of old
	args           script.MoveArgs

	after            script.Ref // the hold of the new carrier
	perKey           bool       // a request with one key a call was sent
	tombstoneWritten bool       // the old tombstone may say "moved" before that is certain
}

// newMove makes a move of the owner's hold with that token from a carrier. last is the number of
// that carrier's last request about it, or "".
func (a *acquisition) newMove(token int64, from, last string) *move {
	opts := a.options
	opts.token, opts.owner = token, a.owner
	return a.carrier.service.newMove(&a.carrier.Carrier, opts, from, last, a.number, a.end)
}

// newMove makes a move of the hold that the options name. number is that of the request of the new
// carrier. end is the end of BLOCK; zero without.
func (s *Service) newMove(to *hold.Carrier, opts acquireOptions, from, last string, number int64,
	end time.Time) *move {
	m := &move{service: s, attaches: opts.id == "", replicas: opts.replicas, end: end}
	m.old = s.holds.FindRef(script.Ref{Lock: opts.lock(), Token: opts.token, Carrier: from})
	text, id := event.Moved, ""
	if !m.attaches {
		text, id = event.Repeated, script.RecordID(opts.id)
	}
	told := ""
	if m.old == nil {
		told = event.Text(text, opts.token, from, opts.key)
	}
	m.after = script.Ref{Lock: opts.lock(), Token: opts.token, Carrier: to.Name}
	m.args = script.MoveArgs{
		Mode: opts.mode, Owner: opts.owner, From: script.Ref{Lock: opts.lock(), Token: opts.token, Carrier: from},
		Last: last, ID: id, Carrier: to.Name, Request: number, Client: to.Client().Name,
		Tombstone: text + " " + to.Name, Keep: max(opts.ttl, s.cfg.WatchdogTimeout), Event: told,
	}
	return m
}

// send sends the move.
func (m *move) send(until time.Time) result {
	if m.old != nil && !m.requestsLocked {
		if m.requestsLocked = m.old.LockRequests(until); !m.requestsLocked {
			return result{kind: busy, text: msgRefused}
		}
	}
	m.args.Replicas, m.args.ReplicasIn = m.replicas, replicaWait(m.end)
	r, err := m.service.redis.Move(&m.args, until)
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
		if left := m.old.MaxHoldLeft(r.Sent); left < script.MaxTTL {
			age = r.Record.Terms().MaxHold - left
		}
	}
	switch {
	case m.old == nil:
	case m.attaches:
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
	s := m.service
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
	return m.service.redis.WriteTombstone(m.args.From, m.args.Tombstone+event.PerhapsSuffix,
		keep, "", until)
}

// settleTombstones finishes the old carrier's tombstone after requests with one key a call. After a
// move it overwrites any text, because watchers on other Leashes read it too. Otherwise it removes
// its own text. What it cannot do soon expires by itself.
func (m *move) settleTombstones(moved bool, err error) {
	s := m.service
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
		m.old.UnlockRequests()
	}
}

// pendingMove is an owner's hold that may have moved to a carrier, or is being put back there. The
// owner's next request about it waits for that. Otherwise it would find a hold in Redis that this
// Leash does not know, or that is about to end.
type pendingMove struct {
	lock  script.Lock
	mode  *script.Mode
	owner string
	done  chan struct{}
}

// pendingMoves are those of a carrier. It is safe for concurrent use.
type pendingMoves struct {
	mu    sync.Mutex
	moves []*pendingMove
}

// beginMove makes requests of an owner about its hold wait until moveDone is called.
func (c *Carrier) beginMove(lock script.Lock, m *script.Mode, owner string) (moveDone func()) {
	pm := &pendingMove{lock, m, owner, make(chan struct{})}
	c.pendingMoves.mu.Lock()
	defer c.pendingMoves.mu.Unlock()
	c.pendingMoves.moves = append(c.pendingMoves.moves, pm)
	return func() {
		c.pendingMoves.mu.Lock()
		defer c.pendingMoves.mu.Unlock()
		i := slices.Index(c.pendingMoves.moves, pm)
		c.pendingMoves.moves = slices.Delete(c.pendingMoves.moves, i, i+1)
		close(pm.done)
	}
}

// awaitMoves waits until the owner's hold has no pending move, at most until the given time. It
// reports whether that is so.
func (c *Carrier) awaitMoves(lock script.Lock, m *script.Mode, owner string, until time.Time) bool {
	for {
		pm := c.pendingMoveOf(lock, m, owner)
		if pm == nil {
			return true
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-pm.done:
			timer.Stop()
			continue
		case <-timer.C:
		case <-c.service.redis.Stopped:
		}
		timer.Stop()
		return false
	}
}

func (c *Carrier) pendingMoveOf(lock script.Lock, m *script.Mode, owner string) *pendingMove {
	c.pendingMoves.mu.Lock()
	defer c.pendingMoves.mu.Unlock()
	for _, pm := range c.pendingMoves.moves {
		if pm.lock == lock && pm.owner == owner && pm.mode.SameInRedis(m) {
			return pm
		}
	}
	return nil
}
