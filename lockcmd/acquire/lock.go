package acquire

import (
	"context"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
	"leash/renewal"
)

// Acquire takes a lock, or counts it once more for its owner. If the lock is taken and the options
// say so, it waits. It blocks until the result is known, BLOCK is over, or ctx ends because the
// client is gone. What it may have taken otherwise is undone in the background.
func (c *Carrier) Acquire(ctx context.Context, opts Options) Result {
	if opts.Wait && c.waitsForItself(&opts) {
		return failed(refusal.Deadlock)
	}
	own, ok := c.lockOwnHold(&opts)
	if !ok {
		return notAccepted()
	}
	if own == nil {
		if err := c.Acquirer.admit(ctx, 1, opts.Key); err != nil {
			return Result{Kind: Failed, Err: err}
		}
	}
	asked := opts.TTL
	if opts.Lease && own != nil {
		opts.TTL = own.CapLease(opts.TTL)
	}
	a := c.newLockRequest(opts, own)
	a.askedTTL = asked
	defer a.unlockOwn()
	wt := a.wait()
	first := opts.Wait && c.Acquirer.Waits.Waiting(wt.Queue) && c.skipsQueue(&opts)
	r := c.AttemptOrWait(ctx, wt, wait.Position{Place: c.placeOf(&opts)}, opts.Wait, first)
	a.copyPending = a.copyPending || r.copyPending
	// In the other cases the undo takes the waiter out of the queue.
	if a.waitsFair() && !r.Took() && r.Kind != Unknown {
		wait.AwaitLeft(ctx, a.leaveQueue(), a.end)
	}
	return a.conclude(ctx, r)
}

// lockRequest is one LOCK.ACQUIRE in progress.
type lockRequest struct {
	request
	call        script.Acquisition
	owner       string
	ownerNumber int64          // number of a generated owner; else 0
	fairPlace   wait.FairPlace // in the queue in Redis, if it waits for FAIR
	// TTL or LEASE as the client asked. options.TTL may be less: a lease ends with MAXHOLD of own.
	askedTTL time.Duration
	// the carrier's hold of this owner, to be acquired once more; nil for a new hold. Its requests
	// are locked by this request.
	own     *hold.Hold
	end     time.Time    // end of BLOCK; zero without
	group   *hold.Group  // group of the new hold; nil without
	place   script.Place // of the next attempt
	move    *arrival     // a move of the owner's hold by ID that is done or unknown; else nil
	granted *hold.Hold   // what the carrier got
}

func (c *Carrier) newLockRequest(opts Options, own *hold.Hold) *lockRequest {
	a := &lockRequest{
		request: request{carrier: c, options: opts, number: c.Requests.Add(1)}, owner: opts.Owner, own: own,
		askedTTL: opts.TTL, end: wait.EndOf(opts.Block),
	}
	if a.owner == "" {
		a.ownerNumber = c.Acquirer.Holds.NewOwners(1)
		a.owner = c.Acquirer.Holds.OwnerName(a.ownerNumber)
	}
	if a.waitsFair() {
		a.fairPlace = c.Acquirer.Waits.Arrive(opts.Lock, a.owner)
	}
	return a
}

// acquireArgs are the arguments of the next attempt.
func (a *lockRequest) acquireArgs() script.AcquireArgs {
	opts, s := &a.options, a.carrier.Acquirer
	args := script.AcquireArgs{
		Lock: opts.Lock, Mode: opts.Mode, Grant: a.grantTerms(), Turn: s.Waits.Entry(opts.Mode),
		Place: a.place, TurnEvent: wait.TurnEvent(opts.Lock, opts.Mode),
		Replicas: opts.Replicas, ReplicasIn: replicaWait(a.end),
	}
	if a.own != nil {
		args.Token = a.own.Token
	}
	if a.waitsFair() {
		args.FairFor = s.Waits.FairTimeout
	}
	return args
}

// grantTerms say what a grant writes.
func (a *lockRequest) grantTerms() script.GrantTerms {
	opts, s := &a.options, a.carrier.Acquirer
	return script.GrantTerms{
		Owner: a.owner, Carrier: a.carrier.Name, Request: a.number, Master: s.Masters.GrantingMaster(opts.Key),
		TTL: opts.TTL, TokenTTL: s.TokenTTL, Options: opts.OptionLetters(), Ext: opts.Ext(),
		ID: opts.ID, Client: a.carrier.Client().Name,
	}
}

// send makes one attempt. An outcome that is not known at until is unknown.
func (a *lockRequest) send(until time.Time) Result {
	r := a.sendOnce(until)
	if r.Took() && r.replicas < a.options.Replicas {
		return a.undoUnreplicated(r)
	}
	return r
}

func (a *lockRequest) sendOnce(until time.Time) Result {
	args := a.acquireArgs()
	r, unknown, err := a.carrier.Acquirer.Redis.Acquire(&a.call, &args, until)
	a.copyPending = a.copyPending || unknown
	if err != nil {
		return Failure(err)
	}
	switch r.Outcome {
	case script.AcquireTaken:
		return Result{Kind: Taken, left: r.Left, Token: r.Token}
	case script.AcquireGranted:
		return Result{
			Kind: Granted, Token: r.Token, left: r.Left, sent: r.Sent, replicas: r.Replicas, repeated: r.Repeated,
		}
	case script.AcquireElsewhere:
		return a.ownerElsewhere(r, until)
	case script.AcquireGone:
		return a.superseded(until)
	case script.AcquireOtherMode:
		return failed(refusal.OtherMode)
	case script.AcquireInGrace:
		if refused, again := a.refusedInGrace(r.Master, until); !again {
			return refused
		}
		return a.sendOnce(until)
	case script.AcquireAgain: // each call removes some dead waiters
		return a.sendOnce(until)
	}
	return Result{Kind: Unknown}
}

// conclude settles a request whose result is r. A grant becomes a hold of the carrier. What may
// still be granted is undone.
func (a *lockRequest) conclude(ctx context.Context, r Result) Result {
	switch {
	case r.Took():
		if err := a.accept(ctx, r); err != nil {
			return Result{Kind: Unknown, Err: err}
		}
	case r.Kind == Unknown:
		r.Err = refusal.Error(refusal.Unanswered)
		switch {
		case a.move != nil:
			a.undoMoved(func() *hold.Hold { return a.move.finish(a.finishLimit()) })
		case a.repeats():
			a.undoRepeated()
		default:
			a.undo()
		}
	case a.copyPending:
		a.undo()
	}
	return r
}

// accept makes a grant a hold of the carrier. With an error it fails and gives the grant back: the
// lease was over, or the client is gone. Grant and disconnect are decided under the carrier's mutex
// (R19).
func (a *lockRequest) accept(ctx context.Context, r Result) error {
	h, until := a.hold(&r)
	if renewal.Left(until) <= 0 {
		a.undo()
		return refusal.Error(refusal.TooLate)
	}
	if !a.carrier.attachHold(ctx, h, a.options.ID, !r.repeated, until) {
		if r.Kind == Moved {
			a.undoMoved(func() *hold.Hold { h, _ := a.move.carry(r); return h })
		} else {
			a.giveBack(h)
		}
		return refusal.Error(refusal.Gone)
	}
	if a.granted = h; r.Kind == Moved {
		a.move.check(h)
	}
	a.accepted(a)
	return nil
}

// hold returns the hold of a grant, and until when it is safe.
func (a *lockRequest) hold(r *Result) (*hold.Hold, time.Time) {
	until := renewal.Until(r.sent, r.left)
	if h := a.own; h != nil {
		if !r.repeated {
			h.Raise(a.options.TTL, a.options.Lease)
		}
		return h, until
	}
	g := a.options.grant(a.owner, r)
	if g.Number = a.ownerNumber; r.Kind != Moved {
		g.Group = a.group
	}
	return hold.New(&a.carrier.Carrier, &g), until
}

// Attempt implements wait.Request.
func (a *lockRequest) Attempt(until time.Time, at wait.Position) Result {
	a.place = at.Place
	return a.send(until)
}

// PassesOn implements wait.Request. It lets the next waiter share the lock, if both can.
func (a *lockRequest) PassesOn(next wait.Request[Result], _ Result, _ bool) bool {
	other, ok := next.(*lockRequest)
	return ok && a.options.Mode.Shared && other.options.Mode.Shared
}

// TakesFrom implements wait.Request.
func (a *lockRequest) TakesFrom(m *script.Mode) bool {
	return a.own == nil && a.options.Replicas == 0 && m.HandsOverTo(a.options.Mode)
}

// waitsFair reports whether the request has, or may have, a place in the queue in Redis until
// it is granted or over.
func (a *lockRequest) waitsFair() bool { return a.options.Mode.Fair && a.options.Wait }

// queueID is the queue of the request.
func (a *lockRequest) queueID() wait.QueueID {
	if a.options.Mode.Fair {
		return wait.FairPlace{Lock: a.options.Lock, Owner: a.owner}.Queue()
	}
	return wait.QueueOf(a.options.Lock, a.options.Mode)
}

// wait is how the request waits in its queue.
func (a *lockRequest) wait() wait.Wait[Result] {
	wt := wait.Wait[Result]{
		Queue: a.queueID(), Request: a, End: a.end, Turns: a.options.Mode, Fair: a.options.Mode.Fair,
		Holders: holders{a.carrier.Acquirer},
	}
	if wt.Fair { // Redis has the order of the FAIR waiters
		wt.Turns = nil
	}
	return wt
}
