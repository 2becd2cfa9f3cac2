package lockcmd

import (
	"errors"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
)

// handoverRequest is a wait.Request that the release of a hold can grant (R21).
type handoverRequest interface {
	wait.Request[result]
	// takeOver ends the hold of rel and grants the lock to the request, in one script.
	takeOver(rel *releaseRequest, at wait.Position, until time.Time) (handover, error)
	// undoHandover takes back what a hand-over has granted to a waiter that has left. r is nil
	// without a grant. copyPending says that a copy of it may still grant something.
	undoHandover(r *result, copyPending bool)
}

// handover is what a hand-over did.
type handover struct {
	answer  int64 // as of a release
	unknown bool  // a copy may still be on its way, also after an error
	given   bool
	grant   result // if it was given
}

// handOver ends the hold and grants the lock to w in one script. known is false when a plain
// release must follow. It carries the same number, so it acts only if this call has not.
func (rel *releaseRequest) handOver(w *wait.Waiter[result], at wait.Position, until time.Time) (code int64,
	known bool) {
	s, request := rel.service, w.Request.(handoverRequest)
	began := time.Now()
	o, err := request.takeOver(rel, at, until)
	rel.outcomeUnknown = rel.outcomeUnknown || o.unknown
	told := err == nil && o.answer == script.HoldEnded // a release tells everybody
	if o.given {
		o.grant.kind, o.grant.handovers = granted, rel.hold.Details().Handovers+1
		s.stats.handovers.Add(1)
		s.stats.handoverTimes.Observe(time.Since(began))
	}
	switch {
	case o.given && !s.waits.Grant(w, o.grant, o.unknown):
		request.undoHandover(&o.grant, o.unknown)
	case !o.given && !s.waits.Unclaim(w, o.unknown, told) && o.unknown:
		request.undoHandover(nil, true)
	}
	if err != nil {
		// After an error, nobody knows how far the script came.
		rel.outcomeUnknown = rel.outcomeUnknown || !errors.Is(err, transport.ErrRefused)
		return 0, false
	}
	return o.answer, true
}

func (a *acquisition) takeOver(rel *releaseRequest, at wait.Position, until time.Time) (handover, error) {
	s, h := rel.service, rel.hold
	r, unknown, err := s.redis.Handover(&script.HandoverArgs{
		End: rel.endArgs(), Grant: a.grantTerms(), Mode: a.options.mode, Turn: s.waits.Entry(a.options.mode),
		TurnOver:  at.Place == script.PlaceFirst, // its turn ends if another Leash waits
		TurnEvent: wait.TurnEvent(h.Lock(), h.Mode()),
	}, until)
	grant := result{token: r.Token, left: r.Left, sent: r.Sent, others: r.Others}
	return handover{answer: r.Answer, unknown: unknown, given: r.Granted, grant: grant}, err
}

func (a *acquisition) undoHandover(r *result, copyPending bool) {
	if r != nil {
		h, _ := a.hold(*r)
		h.Apply(hold.ClosedToRelease)
	}
	if s := a.carrier.service; copyPending {
		s.spawn(func() { s.takeBackTwice(a) })
	}
}

func (a *permitAcquisition) takeOver(rel *releaseRequest, at wait.Position, until time.Time) (handover, error) {
	r, unknown, err := rel.service.redis.HandOverPermit(rel.hold.Owner(), rel.hold.Ref(), a.request(at), until)
	grant := result{others: r.Others, permitsLeft: r.Available, grants: r.Grants, sent: r.Sent}
	return handover{answer: r.Answer, unknown: unknown, given: r.Granted, grant: grant}, err
}

// undoHandover gives the permits back, now and once more a TTL later.
func (a *permitAcquisition) undoHandover(*result, bool) { a.undoGrant() }
