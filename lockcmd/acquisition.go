package lockcmd

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/hold"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
	"leash/renewal"
)

// acquisition is one LOCK.ACQUIRE in progress. Its script may be sent several times and acts once.
type acquisition struct {
	carrier     *Carrier
	options     acquireOptions
	owner       string
	ownerNumber int64          // number of a generated owner; else 0
	fairPlace   wait.FairPlace // in the queue in Redis, if it waits for FAIR
	number      int64
	copyPending bool // a copy of it may reach Redis later
	// TTL or LEASE as the client asked. options.ttl may be less: a lease ends with MAXHOLD of own.
	askedTTL time.Duration
	// the carrier's hold of this owner, to be acquired once more; nil for a new hold. Its requests
	// are locked by this acquisition.
	own          *hold.Hold
	request      script.Acquisition // to Redis
	end          time.Time          // end of BLOCK; zero without
	graceRetries int                // attempts in a row that were refused by a master in grace
	group        *hold.Group        // group of the new hold; nil without
	place        script.Place       // of the next attempt
	pendingMove  *restore.Move      // move of the hold by ID, outcome unknown; else nil
}

// result is how one attempt, or the wait for a lock, ended.
type result struct {
	kind  kind
	token int64 // taken: the last token granted, 0 when unknown
	// how long the lease lasts, the other's or ours; 0 or less when unknown
	left time.Duration
	sent time.Time // left counts from here
	text string    // failed: the error to answer

	replicas  int64 // granted or moved: replicas that have it, if REPLICAS asked
	repeated  bool  // granted before, under the same ID; it counts once
	handovers int   // granted: hand-overs in a row up to this one
	others    int64 // granted by a hand-over: other Leashes that wait

	copyPending bool // at the end of a wait: a copy of a hand-over may still be on its way

	// For permits and latches:
	permitsLeft int64                // granted: permits left for others
	grants      []script.PermitGrant // granted: each permit
	forAll      bool                 // granted: to all waiters of a latch

	// For a hold that was moved here:
	count  int64
	age    time.Duration
	record script.Record
}

type kind int

const (
	taken   kind = iota // somebody else has the lock
	granted             // we have it
	moved               // we have it: the ID moved a hold of another connection here
	busy                // Redis did not take the request; nothing was done (R14)
	unknown             // the outcome is unknown
	failed              // text is the error to answer
	none                // there is no hold to attach
)

// took reports whether the result brings what was asked for.
func (r result) took() bool { return r.kind == granted || r.kind == moved }

func (c *Carrier) newAcquisition(opts acquireOptions, own *hold.Hold) *acquisition {
	a := &acquisition{carrier: c, options: opts, owner: opts.owner, number: c.Requests.Add(1), own: own,
		askedTTL: opts.ttl, end: endOf(opts.block)}
	if a.owner == "" {
		a.ownerNumber = c.service.holds.NewOwners(1)
		a.owner = c.service.holds.OwnerName(a.ownerNumber)
	}
	if a.waitsFair() {
		a.fairPlace = c.service.waits.Arrive(opts.lock(), a.owner)
	}
	return a
}

// acquireArgs are the arguments of the next attempt.
func (a *acquisition) acquireArgs() script.AcquireArgs {
	opts, s := &a.options, a.carrier.service
	args := script.AcquireArgs{
		Lock: opts.lock(), Mode: opts.mode, Grant: a.grantTerms(), Turn: s.waits.Entry(opts.mode),
		Place:     a.place,
		TurnEvent: wait.TurnEvent(opts.lock(), opts.mode), FairBit: s.waits.FairBit,
		Replicas: opts.replicas, ReplicasIn: replicaWait(a.end),
	}
	if a.own != nil {
		args.Token = a.own.Token
	}
	if a.waitsFair() {
		args.FairFor = s.waits.FairTimeout
	}
	return args
}

// grantTerms say what a grant writes.
func (a *acquisition) grantTerms() script.GrantTerms {
	opts, s := &a.options, a.carrier.service
	return script.GrantTerms{
		Owner: a.owner, Carrier: a.carrier.Name, Request: a.number, Master: s.graces.GrantingMaster(opts.key),
		TTL: opts.ttl, TokenTTL: s.cfg.TokenTTL, Options: opts.OptionLetters(), Ext: opts.Ext(),
		ID: opts.id, Client: a.carrier.Client().Name,
	}
}

// send makes one attempt. An outcome that is not known at until is unknown.
func (a *acquisition) send(until time.Time) result {
	r := a.sendOnce(until)
	if r.took() && r.replicas < a.options.replicas {
		return a.undoUnreplicated(r)
	}
	return r
}

func (a *acquisition) sendOnce(until time.Time) result {
	args := a.acquireArgs()
	r, err := a.carrier.service.redis.Acquire(&a.request, &args, until)
	a.copyPending = a.copyPending || a.request.Unknown
	a.request.Unknown = false
	if err != nil {
		return failure(err)
	}
	switch r.Outcome {
	case script.AcquireTaken:
		return result{kind: taken, left: r.Left, token: r.Token}
	case script.AcquireGranted:
		return result{
			kind: granted, token: r.Token, left: r.Left, sent: r.Sent, replicas: r.Replicas, repeated: r.Repeated,
		}
	case script.AcquireElsewhere:
		return a.ownerElsewhere(r, until)
	case script.AcquireGone:
		return a.superseded(until)
	case script.AcquireOtherMode:
		return result{kind: failed, text: msgKind}
	case script.AcquireInGrace:
		return a.refusedInGrace(r.Master, until)
	case script.AcquireAgain: // each call removes some dead waiters
		return a.sendOnce(until)
	}
	return result{kind: unknown}
}

// refusedInGrace handles a refusal by the master with that replication id: the lock is free, but
// this master may not grant it as far as Leash knew.
func (a *acquisition) refusedInGrace(replid string, until time.Time) result {
	r, again := a.carrier.service.refusedInGrace(a.options.key, replid, until)
	if !again {
		return r
	}
	if a.graceRetries++; a.graceRetries > maxGraceRetries {
		a.graceRetries = 0
		return result{kind: busy, text: msgRefused}
	}
	return a.sendOnce(until)
}

// refusedInGrace handles an attempt at key that this master may not grant. again is true when the
// master may grant now.
func (s *Service) refusedInGrace(key, replid string, until time.Time) (r result, again bool) {
	left, ok := s.graces.LeftAt(key, replid)
	if !ok {
		s.graces.Probe(key, time.Now(), until)
		left, ok = s.graces.LeftAt(key, replid)
	}
	switch {
	case !ok:
		s.redis.RefreshTopologyAfter(transport.Refused)
		return result{kind: busy, text: msgRefused}, false
	case left > 0:
		return result{kind: taken, left: left}, false
	}
	return result{}, true
}

// maxGraceRetries is how often in a row one acquisition may probe a new master and try again.
const maxGraceRetries = 3

// failure converts an error of ask to a result.
func failure(err error) result {
	switch {
	case errors.Is(err, transport.ErrUnknown):
		return result{kind: unknown}
	case errors.Is(err, transport.ErrRefused):
		return result{kind: busy, text: refusedText(err)}
	}
	return result{kind: failed, text: transport.ErrorText(err)}
}

// refusedText keeps Redis's own words unless clients would retry blindly because of them. It is ""
// for a slot migration: a lock that cannot be granted now counts as taken (R14).
func refusedText(err error) string {
	if transport.KeysSplit(err) {
		return ""
	}
	var reply redis.Error
	if errors.As(err, &reply) && redis.HasErrorPrefix(reply, "NOREPLICAS") {
		return transport.ErrorText(reply)
	}
	return msgRefused
}

// ownerElsewhere handles an owner whose hold is on another carrier. A repetition of the hold's last
// request moves it here (R4).
func (a *acquisition) ownerElsewhere(found script.AcquireResult, until time.Time) (r result) {
	back := found.Token != 0 && a.options.id != "" && found.ID == script.RecordID(a.options.id)
	if a.own != nil {
		if r, lost := a.ownElsewhere(found.Token, back, until); lost {
			return r
		}
	}
	if !back {
		return result{kind: failed, text: msgElsewhere}
	}
	m := a.newMove(found.Token, found.Carrier, "")
	if r = a.sendMove(m, until); r.kind == unknown {
		a.pendingMove = m // the caller finishes it
		return r
	}
	m.Unlock()
	return r
}

// newMove makes a move of the owner's hold with that token from a carrier. last is the number of
// that carrier's last request about it, or "".
func (a *acquisition) newMove(token int64, from, last string) *restore.Move {
	opts := &a.options
	args := script.MoveArgs{
		Mode: opts.mode, Owner: a.owner, From: script.Ref{Lock: opts.lock(), Token: token, Carrier: from},
		Last: last, Request: a.number, Keep: opts.ttl, Replicas: opts.replicas,
	}
	if opts.id != "" {
		args.ID = script.RecordID(opts.id)
	}
	return a.carrier.service.restorer.NewMove(&a.carrier.Carrier, args)
}

// sendMove sends a move to the carrier of this acquisition.
func (a *acquisition) sendMove(m *restore.Move, until time.Time) result {
	m.Args.ReplicasIn = replicaWait(a.end)
	switch r, err := m.Send(until); {
	case err != nil:
		return failure(err)
	case !r.Moved:
		return result{kind: failed, text: msgElsewhere}
	default:
		return result{
			kind: moved, token: r.Token, left: r.Left, sent: r.Sent, replicas: r.Replicas, count: r.Count, age: r.Age,
			record: r.Record,
		}
	}
}

// ownElsewhere settles the carrier's own hold when the owner's hold is on another connection, with
// that token (0 if unreadable). A different token means that our hold has ended and may be lost:
// then r is the answer (R26). Otherwise our hold was moved away. If it comes back now, it comes as
// a new hold, because the end of the old one may still be on its way.
func (a *acquisition) ownElsewhere(token int64, back bool, until time.Time) (r result, lost bool) {
	if a.own.Token != token {
		return a.ownGone(until)
	}
	s, how, err := a.carrier.service, renewal.Repeated, error(nil)
	if !back {
		how, err = s.restorer.Tombstone(a.own, until)
	}
	if err == nil && !hold.EndedByOwner(how) && a.graceRetries < maxGraceRetries && !a.copyPending {
		how, err = s.restorer.Restore(a.own, until)
	}
	switch {
	case err != nil:
		return result{kind: busy, text: msgRefused}, true
	case how == renewal.Renewed: // a new master lacked the move to us
		return a.sendAfresh(until), true
	}
	a.own.Ended(how)
	a.disown()
	return result{}, false
}

// superseded handles a hold that this connection tracks and Redis does not have. Either its owner
// ended it by another way, and the attempt goes on for a new hold, or it is lost.
func (a *acquisition) superseded(until time.Time) result {
	if a.graceRetries < maxGraceRetries && !a.copyPending {
		switch how, err := a.carrier.service.restorer.Restore(a.own, until); {
		case err != nil:
			return result{kind: busy, text: msgRefused}
		case how == renewal.Renewed: // a new master lacked it
			return a.sendAfresh(until)
		}
	}
	if r, lost := a.ownGone(until); lost {
		return r
	}
	return a.sendOnce(until)
}

// sendAfresh sends the script again after its hold was restored, with a number above that of the
// hold's record.
func (a *acquisition) sendAfresh(until time.Time) result {
	a.graceRetries++
	a.number = a.carrier.Requests.Add(1)
	return a.sendOnce(until)
}

// ownGone settles the carrier's own hold that Redis does not have. If it was lost, or nobody knows,
// r is the answer. If its owner ended it by another way, the acquisition goes on without it.
func (a *acquisition) ownGone(until time.Time) (r result, lost bool) {
	switch reason, err := a.carrier.service.restorer.SettleMissing(a.own, until); {
	case err != nil:
		return result{kind: busy, text: msgRefused}, true
	case reason != "":
		return result{kind: failed, text: a.carrier.lossText(a.own, reason)}, true
	}
	a.disown()
	return result{}, false
}

// repeats reports whether the acquisition, whose outcome is unknown, repeats the last acquire of
// the carrier's own hold. That acquire has counted already.
func (a *acquisition) repeats() bool {
	return a.own != nil && a.options.id != "" && a.own.Details().LastID == a.options.id
}

// disown makes the acquisition one for a new hold, because its own hold is over.
func (a *acquisition) disown() {
	a.unlockOwn()
	a.options.ttl = a.askedTTL
}

// unlockOwn unlocks the requests of the own hold, if there is one.
func (a *acquisition) unlockOwn() {
	if a.own != nil {
		a.own.UnlockRequests()
		a.own = nil
	}
}

// Attempt implements wait.Request.
func (a *acquisition) Attempt(until time.Time, at wait.Position) result {
	a.place = at.Place
	return a.send(until)
}

// PassesOn implements wait.Request. It lets the next waiter share the lock, if both can.
func (a *acquisition) PassesOn(next wait.Request[result], _ result, _ bool) bool {
	other, ok := next.(*acquisition)
	return ok && a.options.mode.Shared && other.options.mode.Shared
}

// TakesFrom implements wait.Request.
func (a *acquisition) TakesFrom(m *script.Mode) bool {
	return a.own == nil && a.options.replicas == 0 && m.HandsOverTo(a.options.mode)
}

// waitsFair reports whether the acquisition has, or may have, a place in the queue in Redis until
// it is granted or over.
func (a *acquisition) waitsFair() bool { return a.options.mode.Fair && a.options.wait }

// queueID is the queue of the acquisition.
func (a *acquisition) queueID() wait.QueueID {
	if a.options.mode.Fair {
		return wait.FairPlace{Lock: a.options.lock(), Owner: a.owner}.Queue()
	}
	return wait.QueueID{Lock: a.options.lock(), Channel: a.options.mode.Channel(a.options.key)}
}

// wait is how the acquisition waits in its queue.
func (a *acquisition) wait() wait.Wait[result] {
	wt := wait.Wait[result]{
		Queue: a.queueID(), Request: a, End: a.end, Turns: a.options.mode, Fair: a.options.mode.Fair,
		Holders: holders{a.carrier.service},
	}
	if wt.Fair { // Redis has the order of the FAIR waiters
		wt.Turns = nil
	}
	return wt
}
