package lockcmd

import (
	"context"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
	"leash/renewal"
)

// permitAcquisition is one SEM.ACQUIRE in progress. Its script may be sent several times and acts
// once.
type permitAcquisition struct {
	carrier     *Carrier
	options     acquireOptions // without an owner
	permits     []string       // acquired all or none
	firstToken  int64          // of the hold of the first permit; the others follow
	number      int64
	copyPending bool         // a copy of it may reach Redis later
	moved       []*hold.Hold // from other connections, by the ID
}

func (c *Carrier) newPermitAcquisition(opts acquireOptions, count int64) *permitAcquisition {
	return &permitAcquisition{
		carrier: c, options: opts, permits: newPermits(opts.key, opts.id, count), number: c.Requests.Add(1),
		firstToken: c.service.holds.NewOwners(count),
	}
}

// request is the request for a script.
func (a *permitAcquisition) request(at wait.Position) *script.PermitRequest {
	s, opts := a.carrier.service, &a.options
	return &script.PermitRequest{
		Lock: opts.lock(),
		Grant: script.GrantTerms{
			Carrier: a.carrier.Name, Request: a.number, Master: s.graces.GrantingMaster(opts.key), TTL: opts.ttl,
			Options: opts.OptionLetters(), ID: opts.id, Client: a.carrier.Client().Name,
		},
		Permits: a.permits, FirstToken: a.firstToken, Turn: s.waits.Entry(script.Permit), Waits: opts.wait,
		Behind: at.Behind, TurnEvent: wait.TurnEvent(opts.lock(), script.Permit),
	}
}

// Attempt makes one attempt. It first moves permits of the same ID here that are on another
// connection. An outcome that is not known at until is unknown.
func (a *permitAcquisition) Attempt(until time.Time, at wait.Position) result {
	s := a.carrier.service
	for range len(a.permits) + 1 + maxGraceRetries {
		r, copyPending, err := s.redis.AcquirePermits(a.request(at), until)
		a.copyPending = a.copyPending || copyPending
		if err != nil {
			return failure(err)
		}
		switch r.Outcome {
		case script.AcquireGranted:
			return result{kind: granted, permitsLeft: r.Available, grants: r.Grants, sent: r.Sent}
		case script.AcquireInGrace:
			if refused, again := s.refusedInGrace(a.options.key, r.Master, until); !again {
				return refused
			}
		case script.AcquireElsewhere:
			if fetched := a.fetch(r.Permit, r.Token, r.Carrier, until); fetched.kind != moved {
				return fetched
			}
		default:
			return result{kind: taken, left: r.Left}
		}
	}
	return result{kind: failed, text: msgElsewhere}
}

// PassesOn implements wait.Request.
func (a *permitAcquisition) PassesOn(_ wait.Request[result], r result, woken bool) bool {
	return leavesPermits(r, woken)
}

// TakesFrom implements wait.Request.
func (a *permitAcquisition) TakesFrom(m *script.Mode) bool { return m == script.Permit }

// leavesPermits reports whether there may be permits for the next waiter.
func leavesPermits(r result, woken bool) bool { return r.kind != granted || r.permitsLeft > 0 || woken }

// fetch moves a permit from another carrier here. The permit is a hold of this connection
// afterwards.
func (a *permitAcquisition) fetch(id string, token int64, carrier string, until time.Time) result {
	if token == 0 || a.options.id == "" {
		return result{kind: failed, text: msgElsewhere}
	}
	if msg := a.superseded(id, token, until); msg != "" {
		return result{kind: failed, text: msg}
	}
	one := &acquisition{carrier: a.carrier, options: a.options, owner: id, number: a.carrier.Requests.Add(1)}
	m := one.newMove(token, carrier, "")
	r := one.sendMove(m, until)
	if r.kind == unknown {
		a.undoMove(one, m)
		return r
	}
	defer m.Unlock()
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
func (a *permitAcquisition) undoMove(one *acquisition, m *restore.Move) {
	s, moveDone := a.carrier.service, a.carrier.beginMove(a.options.lock(), script.Permit, one.owner)
	s.spawn(func() {
		defer moveDone()
		if h := one.finish(m, time.Now().Add(max(a.options.ttl, maxLate))); h != nil {
			s.releaser.PutBack(h, "")
		}
	})
}

// superseded settles this connection's hold of a permit when Redis has the permit with another
// token or carrier. If the owner did that by another way, all is well. Otherwise the hold is lost,
// and the message is the error to answer (R26).
func (a *permitAcquisition) superseded(id string, token int64, until time.Time) (msg string) {
	s, own := a.carrier.service, a.carrier.Newest(a.options.lock(), isPermit(id))
	if own == nil {
		return ""
	}
	how := renewal.Repeated
	if own.Token != token {
		var err error
		if how, err = s.restorer.Tombstone(own, until); err != nil {
			return msgRefused
		}
	}
	if lost := own.SettleMissing(how, own.SafeUntil()); lost != "" {
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
func (a *permitAcquisition) newHolds(r result) (holds []*hold.Hold, until []time.Time, msg string) {
	for i, p := range a.permits {
		token, end := r.grants[i].Token, renewal.Until(r.sent, r.grants[i].Left)
		if renewal.Left(end) <= 0 {
			return nil, nil, msgShort
		}
		if a.options.id != "" { // without an ID all are new
			if own := a.carrier.Newest(a.options.lock(), isPermit(p)); own != nil && own.Token == token {
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

func (a *permitAcquisition) hold(id string, token int64, handovers int) *hold.Hold {
	opts := a.options
	return hold.New(&a.carrier.Carrier, &hold.Grant{
		Key: opts.key, DB: opts.db, Mode: script.Permit, Owner: id, Token: token, TTL: opts.ttl, Terms: opts.Terms,
		Handovers: handovers,
	})
}

// undo releases what the acquisition took or may have taken, and what it moved here. It repeats
// that until Redis answers. It does it once more a TTL later, in case a late copy has acted (R26).
func (a *permitAcquisition) undo() {
	s := a.carrier.service
	s.stats.undone.Add(1)
	for _, h := range a.moved {
		moveDone := a.carrier.beginMove(a.options.lock(), script.Permit, h.Owner())
		s.spawn(func() {
			defer moveDone()
			s.releaser.PutBack(h, "")
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
	for _, g := range r.grants {
		token = max(token, g.Token)
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
		if s.holds.Find(a.options.lock(), isPermit(p)) == nil {
			unowned = append(unowned, p)
		}
	}
	if len(unowned) > 0 {
		a.takeBack(unowned, keep)
	}
}

func (a *permitAcquisition) takeBack(permits []string, keep int64) {
	a.carrier.service.redis.UndoPermits(a.options.lock(), a.carrier.Name, a.number, keep, permits)
}
