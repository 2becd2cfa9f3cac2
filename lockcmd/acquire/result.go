package acquire

import (
	"errors"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
	"leash/proxy/resp"
)

// Result is how one attempt, or the wait for a lock, ended.
type Result struct {
	Kind  Kind
	Err   error // why nothing was granted; nil if the lock is taken
	Token int64 // the last token granted, 0 when unknown

	ForAll      bool  // granted: to all waiters of a latch
	PermitsLeft int64 // granted: permits left for others

	// how long the lease lasts, the other's or ours; 0 or less when unknown
	left time.Duration
	sent time.Time // left counts from here

	replicas  int64                // granted or moved: replicas that have it, if REPLICAS asked
	repeated  bool                 // granted before, under the same ID; it counts once
	handovers int                  // granted: hand-overs in a row up to this one
	others    int64                // granted by a hand-over: other Leashes that wait
	grants    []script.PermitGrant // granted: each permit

	copyPending bool // at the end of a wait: a copy of a hand-over may still be on its way

	move script.MoveResult // moved: the rest of it
}

// Kind says how an attempt ended.
type Kind int

// The kinds of results.
const (
	Taken   Kind = iota // somebody else has the lock
	Granted             // we have it
	Moved               // we have it: a hold of another connection was moved here
	Busy                // Redis did not take the request; nothing was done (R14)
	Unknown             // the outcome is unknown
	Failed              // Err says why
	Absent              // there is no hold to move
)

// Took reports whether the result brings what was asked for.
func (r Result) Took() bool { return r.Kind == Granted || r.Kind == Moved }

// mayChange reports whether waiting may bring another result.
func (r Result) mayChange() bool { return r.Kind == Taken || r.Kind == Busy }

// Outcome implements wait.Result.
func (r Result) Outcome() wait.Outcome {
	o := wait.Outcome{State: wait.Failed, Left: r.left, Token: r.Token, ForAll: r.ForAll, Others: r.others}
	switch r.Kind {
	case Taken:
		o.State = wait.Taken
	case Busy:
		o.State = wait.Busy
	case Granted, Moved:
		o.State = wait.Got
	}
	return o
}

// LeavesPermits reports whether there may be permits for the waiter behind a request with that
// result. woken says that a message came since its last attempt.
func (r Result) LeavesPermits(woken bool) bool {
	return r.Kind != Granted || r.PermitsLeft > 0 || woken
}

// failed is the result of a request that Leash refuses.
func failed(why refusal.Error) Result { return Result{Kind: Failed, Err: why} }

// unknown is the result of a request whose outcome nobody knows.
func unknown(why refusal.Error) Result { return Result{Kind: Unknown, Err: why} }

// notAccepted is the result of a request that Redis did not take.
func notAccepted() Result { return Result{Kind: Busy, Err: refusal.Error(refusal.NotAccepted)} }

// Loss is the refusal for a hold of that key, which was lost.
func Loss(key, reason string) refusal.Error {
	return refusal.Error("LOCKLOST " + transport.PrintableKey(key) + " " + reason)
}

// ReportLoss is the refusal for a hold that was found to be lost. The client learns of that by it.
func (c *Carrier) ReportLoss(h *hold.Hold, reason string) refusal.Error {
	c.ForgetLoss(h)
	return Loss(h.Key(), reason)
}

// Failure is the result of a request to Redis with that error. A slot migration leaves no error: a
// lock that cannot be granted now counts as taken (R14). Redis's own words stay, unless clients
// would retry blindly because of them.
func Failure(err error) Result {
	switch {
	case errors.Is(err, transport.ErrUnknown):
		return Result{Kind: Unknown}
	case !errors.Is(err, transport.ErrRefused):
		return Result{Kind: Failed, Err: err}
	case transport.KeysSplit(err):
		return Result{Kind: Busy}
	case transport.HasCode(err, "NOREPLICAS"):
		reply, _ := errors.AsType[resp.ReplyError](err)
		return Result{Kind: Busy, Err: reply}
	}
	return notAccepted()
}
