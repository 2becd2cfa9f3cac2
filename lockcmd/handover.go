package lockcmd

import (
	"errors"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/release"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
)

// waiters are the waiters of this Leash, to which a release grants the lock. It implements
// release.Waiters.
type waiters struct {
	*wait.Machine[result]
	stats *counters
}

// handoverRequest is a wait.Request that the release of a hold can grant (R21).
type handoverRequest interface {
	wait.Request[result]
	// takeOver ends h and grants the lock to the request, in one script.
	takeOver(h *hold.Hold, end script.EndArgs, at wait.Position, until time.Time) (handover, error)
	// undoHandover takes back what a hand-over has granted to a waiter that has left. r is nil
	// without a grant. copyPending says that a copy of it may still grant something.
	undoHandover(r *result, copyPending bool)
}

// handover is what a hand-over did.
type handover struct {
	release.Handover
	given bool
	grant result // if it was given
}

// HandOver implements release.Waiters. It grants the lock to the head of its queue.
func (ws waiters) HandOver(h *hold.Hold, end script.EndArgs, until time.Time) (release.Handover, bool) {
	if ws.Draining() {
		return release.Handover{}, false
	}
	w, at, claimed := ws.Claim(h.Lock(), h.Mode(), h.Details().Handovers)
	if !claimed {
		return release.Handover{}, false
	}
	began, request := time.Now(), w.Request.(handoverRequest)
	o, err := request.takeOver(h, end, at, until)
	told := err == nil && o.Answer == script.HoldEnded // a release tells everybody
	if o.given {
		o.grant.kind, o.grant.handovers = granted, h.Details().Handovers+1
		ws.stats.handovers.Add(1)
		ws.stats.handoverTimes.Observe(time.Since(began))
	}
	switch {
	case o.given && !ws.Grant(w, o.grant, o.Unknown):
		request.undoHandover(&o.grant, o.Unknown)
	case !o.given && !ws.Unclaim(w, o.Unknown, told) && o.Unknown:
		request.undoHandover(nil, true)
	}
	if err != nil {
		// After an error, nobody knows how far the script came.
		o.Unknown = o.Unknown || !errors.Is(err, transport.ErrRefused)
	}
	return o.Handover, err == nil
}

func (a *acquisition) takeOver(h *hold.Hold, end script.EndArgs, at wait.Position,
	until time.Time) (handover, error) {
	s := a.carrier.service
	r, unknown, err := s.redis.Handover(&script.HandoverArgs{
		End: end, Grant: a.grantTerms(), Mode: a.options.mode, Turn: s.waits.Entry(a.options.mode),
		TurnOver:  at.Place == script.PlaceFirst, // its turn ends if another Leash waits
		TurnEvent: wait.TurnEvent(h.Lock(), h.Mode()),
	}, until)
	grant := result{token: r.Token, left: r.Left, sent: r.Sent, others: r.Others}
	return handover{release.Handover{Answer: r.Answer, Unknown: unknown}, r.Granted, grant}, err
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

func (a *permitAcquisition) takeOver(h *hold.Hold, _ script.EndArgs, at wait.Position,
	until time.Time) (handover, error) {
	r, unknown, err := a.carrier.service.redis.HandOverPermit(h.Owner(), h.Ref(), a.request(at), until)
	grant := result{others: r.Others, permitsLeft: r.Available, grants: r.Grants, sent: r.Sent}
	return handover{release.Handover{Answer: r.Answer, Unknown: unknown}, r.Granted, grant}, err
}

// undoHandover gives the permits back, now and once more a TTL later.
func (a *permitAcquisition) undoHandover(*result, bool) { a.undoGrant() }
