package acquire

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
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

// Refusal is an error without details.
type Refusal int

// The refusals.
const (
	Unanswered  Refusal = iota // Redis did not answer in time; what it may have granted is undone
	NotAccepted                // Redis did not take the request in time
	TooLate                    // the lease was over before the answer came
	Gone                       // the client is gone
	Draining                   // this Leash grants nothing any more
	TooMany                    // too many commands wait
	Unblocked                  // CLIENT UNBLOCK ended the wait with an error
	Deadlock                   // the connection has the key under another owner
	Elsewhere                  // the owner's hold belongs to another connection
	OtherMode                  // the owner has the key in another mode
	NotHeld                    // there is no such hold
)

// Error implements error.
func (r Refusal) Error() string { return fmt.Sprintf("lockcmd: refusal %d of an acquire", int(r)) }

// LostError is the error of an acquire that found a hold of its connection lost.
type LostError struct{ Key, Reason string }

// Error implements error.
func (e *LostError) Error() string { return "lockcmd: lost " + e.Key + " " + e.Reason }

// NamesError is the error of an acquire of a name that is held too often.
type NamesError struct{ Pattern string }

// Error implements error.
func (e *NamesError) Error() string { return "lockcmd: too many holds of " + e.Pattern }

// ReplicasError is the error of a grant that too few replicas have.
type ReplicasError struct {
	Have, Want int64
	Undone     bool // Redis has taken it back
}

// Error implements error.
func (e *ReplicasError) Error() string {
	return fmt.Sprintf("lockcmd: %d of %d replicas have the grant", e.Have, e.Want)
}

// lost is the result for a hold of the carrier that was found to be lost. Its client learns of it
// by that.
func (c *Carrier) lost(h *hold.Hold, reason string) Result {
	c.ForgetLoss(h)
	return Result{Kind: Failed, Err: &LostError{h.Key(), reason}}
}

// Failure is the result of a request to Redis with that error. A slot migration leaves no error: a
// lock that cannot be granted now counts as taken (R14). Redis's own words stay, unless clients
// would retry blindly because of them.
func Failure(err error) Result {
	var reply redis.Error
	switch {
	case errors.Is(err, transport.ErrUnknown):
		return Result{Kind: Unknown}
	case !errors.Is(err, transport.ErrRefused):
		return Result{Kind: Failed, Err: err}
	case transport.KeysSplit(err):
		return Result{Kind: Busy}
	case errors.As(err, &reply) && redis.HasErrorPrefix(reply, "NOREPLICAS"):
		return Result{Kind: Busy, Err: reply}
	}
	return Result{Kind: Busy, Err: NotAccepted}
}
