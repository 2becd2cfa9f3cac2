package acquire

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
	"leash/renewal"
)

// AcquirePermits takes n permits of a semaphore, all or none. The options have no owner. If there
// are too few and the options say so, it waits. It blocks as Acquire does.
func (c *Carrier) AcquirePermits(ctx context.Context, opts Options, n int64) (permits []string, r Result) {
	if err := c.Acquirer.admit(ctx, n, opts.Key); err != nil {
		return nil, Result{Kind: Failed, Err: err}
	}
	a := c.newPermitRequest(opts, n)
	if opts.ID != "" && a.hasPendingRequest() {
		return nil, notAccepted()
	}
	wt := wait.Wait[Result]{
		Queue: wait.QueueOf(opts.Lock, script.Permit), Request: a, Turns: script.Permit, End: wait.EndOf(opts.Block),
	}
	first := opts.ID != "" && c.Acquirer.Waits.Waiting(wt.Queue) && a.mayExist(ctx)
	r = c.AttemptOrWait(ctx, wt, wait.Position{}, opts.Wait, first)
	a.copyPending = a.copyPending || r.copyPending
	return a.permits, a.conclude(ctx, r)
}

// permitRequest is one SEM.ACQUIRE in progress.
type permitRequest struct {
	request
	permits    []string     // acquired all or none
	firstToken int64        // of the hold of the first permit; the others follow
	moved      []*hold.Hold // from other connections, by the ID
	lastToken  int64        // the largest one of the carrier's holds by this request; 0 for none
}

func (c *Carrier) newPermitRequest(opts Options, n int64) *permitRequest {
	return &permitRequest{
		request: request{carrier: c, options: opts, number: c.Requests.Add(1)},
		permits: newPermits(opts.Key, opts.ID, n), firstToken: c.Acquirer.Holds.NewOwners(n),
	}
}

// PermitSize is how many bytes a permit has.
const PermitSize = 16

// newPermits returns n permits: those that belong to an ID, always the same, or new ones.
func newPermits(key, id string, n int64) []string {
	permits := make([]string, n)
	for i := range permits {
		var raw [PermitSize]byte
		if id == "" {
			rand.Read(raw[:]) // never fails
		} else {
			sum := sha256.Sum256([]byte(key + "\x00" + id + "\x00" + strconv.Itoa(i)))
			copy(raw[:], sum[:])
		}
		permits[i] = hex.EncodeToString(raw[:])
	}
	return permits
}

// mayExist reports whether Redis has the permits of the ID, so that this command repeats an earlier
// one. Without an answer from Redis it reports true. All other commands wait behind the present
// waiters.
func (a *permitRequest) mayExist(ctx context.Context) bool {
	redis := a.carrier.Acquirer.Redis
	ctx, cancel := context.WithDeadline(ctx, redis.Deadline())
	defer cancel()
	has, err := redis.HasPermit(ctx, a.options.Lock, a.permits[0])
	return err != nil || has
}

// hasPendingRequest reports whether a release or a move of one of the permits is still in progress,
// which this connection took under the same ID.
func (a *permitRequest) hasPendingRequest() bool {
	until := a.carrier.Acquirer.Redis.Deadline()
	for _, p := range a.permits {
		if !a.carrier.awaitMoves(a.options.Lock, script.Permit, p, until) {
			return true
		}
		if h := a.own(p); h != nil && h.State() != hold.Held {
			return true
		}
	}
	return false
}

// own is the carrier's hold of a permit, or nil.
func (a *permitRequest) own(permit string) *hold.Hold {
	return a.carrier.Newest(a.options.Lock, hold.PermitSelector(permit).Means)
}

// script is the request for a script.
func (a *permitRequest) script(at wait.Position) *script.PermitRequest {
	s, opts := a.carrier.Acquirer, &a.options
	return &script.PermitRequest{
		Lock: opts.Lock,
		Grant: script.GrantTerms{
			Carrier: a.carrier.Name, Request: a.number, Master: s.Masters.GrantingMaster(opts.Key), TTL: opts.TTL,
			Options: opts.OptionLetters(), ID: opts.ID, Client: a.carrier.Client().Name,
		},
		Permits: a.permits, FirstToken: a.firstToken, Turn: s.Waits.Entry(script.Permit), Waits: opts.Wait,
		Behind: at.Behind, TurnEvent: wait.TurnEvent(opts.Lock, script.Permit),
	}
}

// Attempt makes one attempt. It first moves permits of the same ID here that are on another
// connection. An outcome that is not known at until is unknown.
func (a *permitRequest) Attempt(until time.Time, at wait.Position) Result {
	for range len(a.permits) + 1 + maxGraceRetries {
		found, copyPending, err := a.carrier.Acquirer.Redis.AcquirePermits(a.script(at), until)
		a.copyPending = a.copyPending || copyPending
		if err != nil {
			return Failure(err)
		}
		switch found.Outcome {
		case script.AcquireGranted:
			return Result{Kind: Granted, PermitsLeft: found.Available, grants: found.Grants, sent: found.Sent}
		case script.AcquireInGrace:
			if r, again := a.refusedInGrace(found.Master, until); !again {
				return r
			}
		case script.AcquireElsewhere:
			if r := a.fetch(found, until); r.Kind != Moved {
				return r
			}
		default:
			return Result{Kind: Taken, left: found.Left}
		}
	}
	return failed(refusal.Elsewhere)
}

// PassesOn implements wait.Request.
func (a *permitRequest) PassesOn(_ wait.Request[Result], r Result, woken bool) bool {
	return r.LeavesPermits(woken)
}

// TakesFrom implements wait.Request.
func (a *permitRequest) TakesFrom(m *script.Mode) bool { return m == script.Permit }

// fetch moves a permit from another carrier here. The permit is a hold of this connection
// afterwards.
func (a *permitRequest) fetch(found script.PermitAcquireResult, until time.Time) Result {
	if found.Token == 0 || a.options.ID == "" {
		return failed(refusal.Elsewhere)
	}
	if r, lost := a.settleReplaced(found.Permit, found.Token, until); lost {
		return Result{Kind: Failed, Err: r.Err}
	}
	m := a.carrier.newArrival(&a.options, script.MoveArgs{
		Owner: found.Permit, From: script.Ref{Token: found.Token, Carrier: found.Carrier},
		Request: a.carrier.Requests.Add(1),
	})
	r := m.send(until)
	if r.Kind == Unknown {
		a.putBackMoved(found.Permit, func() *hold.Hold { return m.finish(a.finishLimit()) }, func(*hold.Hold) {})
		return r
	}
	defer m.Unlock()
	if r.Kind == Moved {
		h, err := m.carry(r)
		if err != nil {
			return Result{Kind: Failed, Err: err}
		}
		a.moved = append(a.moved, h)
	}
	return r
}

// settleReplaced settles this connection's hold of a permit when Redis has the permit with another
// token or carrier. If the owner did that by another way, all is well. Otherwise the hold is lost,
// or nobody knows, and r is the answer (R26).
func (a *permitRequest) settleReplaced(permit string, token int64, until time.Time) (r Result, lost bool) {
	own := a.own(permit)
	if own == nil {
		return r, false
	}
	how := renewal.Repeated
	if own.Token != token {
		var err error
		if how, err = a.carrier.Acquirer.Tombstone(own, until); err != nil {
			return notAccepted(), true
		}
	}
	if reason := own.SettleMissing(how, own.SafeUntil()); reason != "" {
		return Result{Kind: Failed, Err: a.carrier.ReportLoss(own, reason)}, true
	}
	return r, false
}

// conclude settles a request whose result is r. The granted permits become holds of the carrier.
// What may still be granted is undone.
func (a *permitRequest) conclude(ctx context.Context, r Result) Result {
	switch {
	case r.Kind == Granted:
		return a.accept(ctx, r)
	case r.Kind == Unknown:
		r.Err = refusal.Error(refusal.Unanswered)
		a.undo()
	case a.copyPending || len(a.moved) > 0:
		if r.Kind == Busy && r.Err != nil && len(a.moved) > 0 { // not true that nothing was done
			r = unknown(refusal.Unanswered)
		}
		a.undo()
	}
	return r
}

// accept makes the granted permits holds of the carrier, or gives them back.
func (a *permitRequest) accept(ctx context.Context, r Result) Result {
	fresh, until, failure := a.newHolds(r)
	if failure.Err == nil && !a.carrier.attachHolds(ctx, fresh, a.options.ID, until) {
		failure = unknown(refusal.Gone)
	}
	if failure.Err != nil {
		a.undo()
		return failure
	}
	for _, g := range r.grants {
		a.lastToken = max(a.lastToken, g.Token)
	}
	a.accepted(a)
	return r
}

// newHolds returns the holds that are new by the grant, and until when they are safe. With an error
// in the failure there are none.
func (a *permitRequest) newHolds(r Result) (holds []*hold.Hold, until []time.Time, failure Result) {
	for i, p := range a.permits {
		r.Token = r.grants[i].Token
		end := renewal.Until(r.sent, r.grants[i].Left)
		if renewal.Left(end) <= 0 {
			return nil, nil, unknown(refusal.TooLate)
		}
		if a.options.ID != "" { // without an ID all are new
			if own := a.own(p); own != nil && own.Token == r.Token {
				continue
			}
			if failure, lost := a.settleReplaced(p, r.Token, a.carrier.Acquirer.Redis.Deadline()); lost {
				return nil, nil, failure
			}
		}
		g := a.options.grant(p, &r)
		holds, until = append(holds, hold.New(&a.carrier.Carrier, &g)), append(until, end)
	}
	return holds, until, failure
}

// undo releases what the request took or may have taken, and what it moved here.
func (a *permitRequest) undo() {
	a.carrier.Acquirer.Undone.Add(1)
	for _, h := range a.moved {
		a.putBackMoved(h.Owner(), func() *hold.Hold { return h }, func(*hold.Hold) {})
	}
	a.undoGrant()
}

// undoGrant is undo without what was moved here. Acquires with the same ID on this connection wait
// for it. They would find permits in Redis that are about to be released. done is closed when Redis
// has answered.
func (a *permitRequest) undoGrant() (done <-chan struct{}) {
	var all []func()
	if a.options.ID != "" {
		for _, p := range a.permits {
			all = append(all, a.carrier.beginMove(a.options.Lock, script.Permit, p))
		}
	}
	return a.takeBackTwice(a, func() {
		for _, moveDone := range all {
			moveDone()
		}
	})
}

// takeBack implements kind. A late copy may have taken permits that nobody holds.
func (a *permitRequest) takeBack(_ int64, late bool) {
	s, permits := a.carrier.Acquirer, a.permits
	if late {
		permits = nil
		for _, p := range a.permits {
			if s.Holds.Find(a.options.Lock, hold.PermitSelector(p).Means) == nil {
				permits = append(permits, p)
			}
		}
	}
	if len(permits) > 0 {
		s.Redis.UndoPermits(a.options.Lock, a.carrier.Name, a.number, a.lastToken, permits)
	}
}
