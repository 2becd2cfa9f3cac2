package lockcmd

import (
	"context"
	"strconv"
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// permitAcquisition is one SEM.ACQUIRE in progress. Its script may be sent several times and acts
// once.
type permitAcquisition struct {
	carrier     *Carrier
	options     acquireOptions // without an owner
	permits     []string       // acquired all or none
	number      int64
	copyPending bool // a copy of it may reach Redis later
	call        *script.Call
	moved       []*hold // from other connections, by the ID
}

func (c *Carrier) newPermitAcquisition(opts acquireOptions, count int64) *permitAcquisition {
	s := c.service
	a := &permitAcquisition{carrier: c, options: opts, permits: newPermits(opts.key, opts.id, count),
		number: c.requests.Add(1)}
	args := script.Args(
		c.name, a.number, opts.ttl.Milliseconds(), opts.OptionLetters(), script.RecordID(opts.id),
		script.RecordClient(c.host.Client()), script.PermitChannel(opts.key),
		s.cfg.publishMode(), s.graces.GrantingMaster(opts.key), s.turnEntry(script.Permit), "", behindNone,
		turnEventText(opts.lock(), script.Permit),
	)
	for _, p := range a.permits {
		args = append(args, p, script.Decimal(s.owners.Add(1)))
	}
	a.call = &script.Call{Script: script.PermitAcquireScript, DB: opts.db,
		Keys: append(script.SemaphoreKeys(opts.key), script.TurnsKey(opts.key)), Args: args}
	return a
}

// These are indexes in the arguments: the master that may grant, what the script needs to know of
// the turns, and the first permit.
const permitMasterArg, permitEntryArg, permitWaitsArg, permitBehindArg, permitsArg = 8, 9, 10, 11, 13

// attempt makes one attempt. It first moves permits of the same ID here that are on another
// connection. An outcome that is not known at until is unknown.
func (a *permitAcquisition) attempt(until time.Time, at position) result {
	a.call.Args[permitEntryArg], a.call.Args[permitBehindArg] = a.carrier.service.turnEntry(script.Permit), at.behind
	if a.options.wait {
		a.call.Args[permitWaitsArg] = "1"
	}
	for range len(a.permits) + 1 + maxGraceRetries {
		a.call.Args[permitMasterArg] = a.carrier.service.graces.GrantingMaster(a.options.key)
		reply, err := a.carrier.service.redis.Ask(a.call, until)
		a.copyPending = a.copyPending || a.call.OutcomeUnknown
		a.call.OutcomeUnknown = false
		if err != nil {
			return failure(err)
		}
		n := script.IntegersOf(reply)
		switch {
		case n[0] == 0 && len(n) > 1:
			return result{kind: taken, left: script.Millis(n[1])}
		case n[0] == 1 && len(n) == 2+2*len(a.permits):
			return result{kind: granted, permitsLeft: n[1], grants: n[2:], sent: a.call.Sent}
		case n[0] == 6:
			if r, again := a.carrier.service.refusedInGrace(a.options.key, script.TextAt(reply, 1), until); !again {
				return r
			}
			continue
		case n[0] != 2:
			return result{kind: unknown}
		}
		if r := a.fetch(script.TextAt(reply, 1), script.TextAt(reply, 2), script.TextAt(reply, 3),
			until); r.kind != moved {
			return r
		}
	}
	return result{kind: failed, text: msgElsewhere}
}

func (a *permitAcquisition) passesOn(_ waitRequest, r result, woken bool) bool {
	return leavesPermits(r, woken)
}

func (a *permitAcquisition) takesFrom(m *script.Mode) bool { return m == script.Permit }

// leavesPermits reports whether there may be permits for the next waiter.
func leavesPermits(r result, woken bool) bool { return r.kind != granted || r.permitsLeft > 0 || woken }

// fetch moves a permit from another carrier here. The permit is a hold of this connection
// afterwards.
func (a *permitAcquisition) fetch(id, token, carrier string, until time.Time) result {
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil || a.options.id == "" {
		return result{kind: failed, text: msgElsewhere}
	}
	if msg := a.superseded(id, n, until); msg != "" {
		return result{kind: failed, text: msg}
	}
	one := &acquisition{carrier: a.carrier, options: a.options, owner: id, number: a.carrier.requests.Add(1)}
	m := one.newMove(n, carrier, "")
	r := m.send(until)
	if r.kind == unknown {
		a.undoMove(m)
		return r
	}
	defer m.unlockOld()
	if r.kind == moved {
		h, msg := one.carry(r)
		if msg != "" {
			return result{kind: failed, text: msg}
		}
		a.moved = append(a.moved, h)
	}
	return r
}

// undoMove finishes the move of a permit, whose outcome is unknown, and gives the permit back.
func (a *permitAcquisition) undoMove(m *move) {
	s, moveDone := a.carrier.service, a.carrier.beginMove(a.options.lock(), script.Permit, m.acquisition.owner)
	s.spawn(func() {
		defer moveDone()
		if h := m.finish(time.Now().Add(max(a.options.ttl, maxLate))); h != nil {
			s.putBack(h, "")
		}
	})
}

// superseded settles this connection's hold of a permit when Redis has the permit with another
// token or carrier. If the owner did that by another way, all is well. Otherwise the hold is lost,
// and the message is the error to answer (R26).
func (a *permitAcquisition) superseded(id string, token int64, until time.Time) (msg string) {
	s, own := a.carrier.service, a.carrier.newest(a.options.lock(), isPermit(id))
	if own == nil {
		return ""
	}
	how := renewal.Repeated
	if own.token != token {
		var err error
		if how, err = s.readTombstone(own, until); err != nil {
			return msgRefused
		}
	}
	if lost := own.settleMissing(how, s.watchdog.Until(&own.watch)); lost != "" {
		return a.carrier.lossText(own, lost)
	}
	return ""
}

// accept makes the granted permits holds of the carrier. With a nonempty message, the error to
// answer, it fails and gives them back.
func (a *permitAcquisition) accept(ctx context.Context, r result) (msg string) {
	s, c := a.carrier.service, a.carrier
	fresh, until, msg := a.newHolds(r)
	if msg == "" && !c.attachHolds(ctx, fresh, a.options.id, until) {
		msg = msgGone
	}
	if msg != "" {
		a.undo()
		return msg
	}
	s.stats.acquires.Add(1)
	if a.copyPending {
		s.spawn(func() { a.undoLater(r.largestToken()) })
	}
	return ""
}

// newHolds returns the holds that are new by the grant, and until when they are safe.
func (a *permitAcquisition) newHolds(r result) (holds []*hold, until []time.Time, msg string) {
	for i, p := range a.permits {
		token, end := r.grants[2*i], renewal.Until(r.sent, script.Millis(r.grants[2*i+1]))
		if renewal.Left(end) <= 0 {
			return nil, nil, msgShort
		}
		if a.options.id != "" { // without an ID all are new
			if own := a.carrier.newest(a.options.lock(), isPermit(p)); own != nil && own.token == token {
				continue
			}
			if msg := a.superseded(p, token, a.carrier.service.deadline()); msg != "" {
				return nil, nil, msg
			}
		}
		holds, until = append(holds, a.hold(p, token, r.handovers)), append(until, end)
	}
	return holds, until, ""
}

func (a *permitAcquisition) hold(id string, token int64, handovers int) *hold {
	opts := a.options
	h := &hold{
		carrier: a.carrier, kind: script.Permit.ID, db: int32(opts.db), naming: named(opts.key, id), token: token,
		count: 1, Flags: opts.Flags, ttl: opts.ttl,
	}
	h.watch.Keeper = h
	if handovers > 0 {
		h.extra = &extra{handovers: handovers}
	}
	return h
}

// undo releases what the acquisition took or may have taken, and what it moved here. It repeats
// that until Redis answers. It does it once more a TTL later, in case a late copy has acted (R26).
func (a *permitAcquisition) undo() {
	s := a.carrier.service
	s.stats.undone.Add(1)
	for _, h := range a.moved {
		moveDone := a.carrier.beginMove(a.options.lock(), script.Permit, h.owner())
		s.spawn(func() {
			defer moveDone()
			s.putBack(h, "")
		})
	}
	a.undoGrant()
}

// undoGrant is undo without what was moved here.
func (a *permitAcquisition) undoGrant() {
	moveDone := a.beginMoves()
	a.carrier.service.spawn(func() {
		a.takeBack(a.permits, 0)
		moveDone()
		a.undoLater(0)
	})
}

// beginMoves makes acquires with the same ID on this connection wait until moveDone is called. They
// would find permits in Redis that are about to be released.
func (a *permitAcquisition) beginMoves() (moveDone func()) {
	if a.options.id == "" {
		return func() {}
	}
	all := make([]func(), len(a.permits))
	for i, p := range a.permits {
		all[i] = a.carrier.beginMove(a.options.lock(), script.Permit, p)
	}
	return func() {
		for _, moveDone := range all {
			moveDone()
		}
	}
}

// largestToken is the largest token of the grant.
func (r result) largestToken() (token int64) {
	for i := 0; i+1 < len(r.grants); i += 2 {
		token = max(token, r.grants[i])
	}
	return token
}

// undoLater releases permits that a late copy may have taken and that nobody holds. A grant with
// a token up to keep stays: it was left to expire when its connection broke (R28).
func (a *permitAcquisition) undoLater(keep int64) {
	s := a.carrier.service
	if s.redis.StoppedWithin(min(a.options.ttl, maxLate)) {
		return
	}
	var unowned []string
	for _, p := range a.permits {
		if s.find(a.options.lock(), isPermit(p)) == nil {
			unowned = append(unowned, p)
		}
	}
	if len(unowned) > 0 {
		a.takeBack(unowned, keep)
	}
}

func (a *permitAcquisition) takeBack(permits []string, keep int64) {
	a.carrier.service.redis.UndoPermits(a.options.lock().inRedis(), a.carrier.name, a.number, keep, permits)
}
