package acquire

import (
	"errors"
	"sync/atomic"
	"time"

	"leash/internal/histogram"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/release"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
)

// Waiters are the commands that wait on this Leash. A release grants the lock to one of them. It
// implements release.Waiters and is safe for concurrent use.
type Waiters struct {
	*wait.Machine[Result]
	Handovers     atomic.Int64        // grants by a hand-over
	HandoverTimes histogram.Histogram // of the calls that released a lock and granted it
}

// HandOver implements release.Waiters. It grants the lock to the head of its queue.
func (w *Waiters) HandOver(h *hold.Hold, end script.EndArgs, until time.Time) (release.Handover, bool) {
	if w.Draining() {
		return release.Handover{}, false
	}
	head, at, claimed := w.Claim(h.Lock(), h.Mode(), h.Details().Handovers)
	if !claimed {
		return release.Handover{}, false
	}
	began, request := time.Now(), head.Request.(kind)
	did, unknown, err := request.takeOver(h, end, at, until)
	grant := Result{
		Token: did.Token, left: did.Left, sent: did.Sent, others: did.Others, PermitsLeft: did.Available,
		grants: did.Grants,
	}
	if did.Granted {
		grant.Kind, grant.handovers = Granted, h.Details().Handovers+1
		w.Handovers.Add(1)
		w.HandoverTimes.Observe(time.Since(began))
	}
	told := err == nil && did.Answer == script.HoldEnded // a release tells everybody
	switch {
	case did.Granted && !w.Grant(head, grant, unknown), !did.Granted && !w.Unclaim(head, unknown, told) && unknown:
		request.undoHandover(grant, unknown)
	}
	// After an error, nobody knows how far the script came.
	unknown = unknown || err != nil && !errors.Is(err, transport.ErrRefused)
	return release.Handover{Answer: did.Answer, Unknown: unknown}, err == nil
}

// takeOver implements kind.
func (a *lockRequest) takeOver(h *hold.Hold, end script.EndArgs, at wait.Position, until time.Time) (
	did script.HandoverResult, unknown bool, err error,
) {
	s := a.carrier.Acquirer
	return s.Redis.Handover(&script.HandoverArgs{
		End: end, Grant: a.grantTerms(), Mode: a.options.Mode, Turn: s.Waits.Entry(a.options.Mode),
		TurnOver:  at.Place == script.PlaceFirst, // its turn ends if another Leash waits
		TurnEvent: wait.TurnEvent(h.Lock(), h.Mode()),
	}, until)
}

// undoHandover implements kind.
func (a *lockRequest) undoHandover(grant Result, copyPending bool) {
	if grant.Took() {
		h, _ := a.hold(&grant)
		h.Apply(hold.ClosedToRelease)
	}
	if copyPending {
		a.takeBackTwice(a, func() {})
	}
}

// takeOver implements kind.
func (a *permitRequest) takeOver(h *hold.Hold, _ script.EndArgs, at wait.Position, until time.Time) (
	did script.HandoverResult, unknown bool, err error,
) {
	return a.carrier.Acquirer.Redis.HandOverPermit(h.Owner(), h.Ref(), a.script(at), until)
}

// undoHandover implements kind. It gives the permits back, now and once more a TTL later.
func (a *permitRequest) undoHandover(Result, bool) { a.undoGrant() }

// holders tells holders of a lock that somebody waits for it. It implements wait.Holders.
type holders struct{ *Acquirer }

// TellHere implements wait.Holders.
func (s holders) TellHere(lock script.Lock) {
	if !s.Holds.Notifying() {
		return
	}
	for _, h := range s.Holds.OfLock(lock) {
		h.ReportWanted()
	}
}

// TellOthers implements wait.Holders.
func (s holders) TellOthers(lock script.Lock, after int64) (held bool) {
	until := time.Now().Add(time.Second)
	info, err := s.Redis.Inspect(lock, until)
	if err != nil {
		return true
	}
	for _, f := range info.Holds {
		if f.Record.Token > after && script.CarrierLeash(f.Record.Carrier) != s.Holds.Leash {
			event.Send(s.Redis, event.Wanted, f.Ref(lock), until)
		}
	}
	return len(info.Holds)+len(info.Others) > 0
}
