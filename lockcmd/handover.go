package lockcmd

import (
	"errors"
	"time"

	"leash/lockcmd/script"
)

// handoverRequest is a waitRequest that the release of a hold can grant (R21).
type handoverRequest interface {
	waitRequest
	// handoverCall is the script that ends the hold of rel and grants the lock to the request.
	handoverCall(rel *releaseRequest, at position) *script.Call
	// readHandover reads its reply. ok is false when the request was not granted.
	readHandover(n []int64) (r result, ok bool)
	// undoHandover takes back what a hand-over has granted to a waiter that has left. r is nil
	// without a grant. copyPending says that a copy of it may still grant something.
	undoHandover(r *result, copyPending bool)
}

// handOver ends the hold and grants the lock to w in one script. known is false when a plain
// release must follow. It carries the same number, so it acts only if this call has not.
func (rel *releaseRequest) handOver(w *waiter, at position, until time.Time) (code int64, known bool) {
	s, request := rel.service, w.request.(handoverRequest)
	call := request.handoverCall(rel, at)
	reply, err := s.redis.Ask(call, until)
	rel.call.OutcomeUnknown = rel.call.OutcomeUnknown || call.OutcomeUnknown
	n := script.IntegersOf(reply)
	told := err == nil && n[0] == holdEnded // a release tells everybody
	grant, given := request.readHandover(n)
	if given = given && told; given {
		grant.kind, grant.sent, grant.handovers = granted, call.Sent, rel.hold.handovers()+1
		s.stats.handovers.Add(1)
	}
	switch {
	case given && !s.queues.grant(w, grant, call.OutcomeUnknown):
		request.undoHandover(&grant, call.OutcomeUnknown)
	case !given && !s.queues.unclaim(w, call.OutcomeUnknown, told) && call.OutcomeUnknown:
		request.undoHandover(nil, true)
	}
	if err != nil {
		// After an error, nobody knows how far the script came.
		rel.call.OutcomeUnknown = rel.call.OutcomeUnknown || !errors.Is(err, script.ErrRefused)
		return 0, false
	}
	return n[0], true
}

func (a *acquisition) handoverCall(rel *releaseRequest, at position) *script.Call {
	s, h, m := rel.service, rel.hold, rel.hold.mode()
	key, owner, turnOver := h.key(), rel.hold.owner(), ""
	if at.place == placeFirst { // its turn ends if another Leash waits
		turnOver = "1"
	}
	args := a.appendGrantArgs(append(rel.args(owner), a.owner, a.carrier.name, script.Decimal(a.number)))
	return &script.Call{
		Script: m.Handover, DB: int(h.db),
		Keys:    m.EndKeys(key, owner, script.TokenKey(key), script.TurnsKey(key)),
		MinKeys: m.MinKeys(key, owner) + 1,
		Args: append(args, m.Channel(key), s.cfg.publishMode(), a.options.mode.Name, s.turnEntry(a.options.mode),
			turnOver, turnEventText(h.lock(), m)),
	}
}

func (a *acquisition) readHandover(n []int64) (r result, ok bool) {
	if len(n) < 3 {
		return r, false
	}
	r = result{token: n[1], left: script.Millis(n[2])}
	if len(n) > 3 {
		r.others = n[3]
	}
	return r, true
}

func (a *acquisition) undoHandover(r *result, copyPending bool) {
	if r != nil {
		h, _ := a.hold(*r)
		h.apply(closedToRelease, "")
	}
	if s := a.carrier.service; copyPending {
		s.spawn(func() { s.takeBackTwice(a) })
	}
}

func (a *permitAcquisition) handoverCall(rel *releaseRequest, at position) *script.Call {
	s, h, key := rel.service, rel.hold, rel.hold.key()
	args := append(script.Args(h.owner(), h.token, h.carrier.name), a.call.Args[:permitMasterArg]...)
	event, own := turnEventText(h.lock(), script.Permit), script.SemaphoreKeys(key)
	args = append(args, s.graces.GrantingMaster(key), s.turnEntry(script.Permit), at.behind, event)
	return &script.Call{
		Script: h.mode().Handover, DB: int(h.db), Keys: append(own, script.TurnsKey(key)), MinKeys: len(own),
		Args: append(args, a.call.Args[permitsArg:]...),
	}
}

func (a *permitAcquisition) readHandover(n []int64) (r result, ok bool) {
	if len(n) != 3+2*len(a.permits) {
		return r, false
	}
	return result{others: n[1], permitsLeft: n[2], grants: n[3:]}, true
}

// undoHandover gives the permits back, now and once more a TTL later.
func (a *permitAcquisition) undoHandover(*result, bool) { a.undoGrant() }
