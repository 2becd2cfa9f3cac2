package acquire

import (
	"slices"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/script"
	"leash/renewal"
)

// What an acquire looks at before its first attempt.

// waitsForItself reports whether the command would wait for a hold of its own connection (R5):
// another owner has it, and the two modes cannot be held together. It asks Redis, because a
// connection of another Leash may have released that hold a moment ago.
func (c *Carrier) waitsForItself(opts *Options) bool {
	var ended []*hold.Hold
	for {
		h := c.NewestInTheWay(opts.Lock, func(h *hold.Hold) bool {
			return !h.IsPermit() && !h.IsOf(opts.Owner) && !(h.Mode().Shared && opts.Mode.Shared) &&
				!slices.Contains(ended, h)
		})
		if h == nil || c.Acquirer.isHeld(h) {
			return h != nil
		}
		ended = append(ended, h)
	}
}

// placeOf is what the first attempt tells Redis.
func (c *Carrier) placeOf(opts *Options) script.Place {
	reads := opts.Mode.Shared && c.Newest(opts.Lock, func(h *hold.Hold) bool { return h.Mode() == opts.Mode }) != nil
	switch {
	case reads && opts.Wait:
		return script.PlaceTurn
	case reads:
		return script.PlaceReads
	case opts.Wait:
		return script.PlaceLast
	}
	return script.PlaceNone
}

// skipsQueue reports whether the command attempts at once, although others wait: it may be about a
// hold that its owner has already. For a shared mode such a hold must be known here or in Redis.
// Otherwise new readers would overtake a waiting writer.
func (c *Carrier) skipsQueue(opts *Options) bool {
	if !opts.Mode.Shared {
		return opts.Owner != ""
	}
	own := c.Acquirer.Holds.Find(opts.Lock, func(h *hold.Hold) bool {
		return h.Carrier == &c.Carrier || h.IsOf(opts.Owner)
	})
	return own != nil || opts.ID != "" && c.Acquirer.hasOwner(opts.Lock, opts.Owner)
}

// lockOwnHold returns the carrier's hold of the owner in that mode, with its requests locked. It
// returns nil when there is none. ok is false when an earlier request about the hold has no answer
// yet.
func (c *Carrier) lockOwnHold(opts *Options) (own *hold.Hold, ok bool) {
	if opts.Owner == "" {
		return nil, true
	}
	until := c.Acquirer.Redis.Deadline()
	if !c.awaitMoves(opts.Lock, opts.Mode, opts.Owner, until) {
		return nil, false
	}
	for {
		h := c.Newest(opts.Lock, func(h *hold.Hold) bool {
			return h.IsOf(opts.Owner) && h.Mode().SameInRedis(opts.Mode)
		})
		if h == nil {
			return nil, true
		}
		if !h.LockRequests(until) {
			return nil, false
		}
		if h.LeaseOver() {
			h.Apply(hold.Dropped) // the grant replaces what Redis still has of it
		}
		if c.Newest(opts.Lock, func(other *hold.Hold) bool { return other == h }) != nil {
			return h, true
		}
		h.UnlockRequests() // it ended while we waited
	}
}

// An attempt may find that the owner's hold is not as this carrier knows it.

// ownerElsewhere handles an owner whose hold is on another carrier. A repetition of the hold's last
// request moves it here (R4).
func (a *lockRequest) ownerElsewhere(found script.AcquireResult, until time.Time) (r Result) {
	back := found.Token != 0 && a.options.ID != "" && found.ID == script.RecordID(a.options.ID)
	if a.own != nil {
		if r, lost := a.ownElsewhere(found.Token, back, until); lost {
			return r
		}
	}
	if !back {
		return failed(refusal.Elsewhere)
	}
	m := a.carrier.newArrival(&a.options, script.MoveArgs{
		Owner: a.owner, From: script.Ref{Token: found.Token, Carrier: found.Carrier}, Request: a.number,
	})
	m.end = a.end
	if r = m.send(until); r.Took() || r.Kind == Unknown { // the caller accepts or finishes it
		a.move = m
	}
	if r.Kind != Unknown {
		m.Unlock()
	}
	return r
}

// ownElsewhere settles the carrier's own hold when the owner's hold is on another connection, with
// that token (0 if unreadable). A different token means that our hold has ended and may be lost:
// then r is the answer (R26). Otherwise our hold was moved away. If it comes back now, it comes as
// a new hold, because the end of the old one may still be on its way.
func (a *lockRequest) ownElsewhere(token int64, back bool, until time.Time) (r Result, lost bool) {
	if a.own.Token != token {
		return a.ownGone(until)
	}
	s, how, err := a.carrier.Acquirer, renewal.Repeated, error(nil)
	if !back {
		how, err = s.Tombstone(a.own, until)
	}
	if err == nil && !hold.EndedByOwner(how) && a.graceRetries < maxGraceRetries && !a.copyPending {
		how, err = s.Restore(a.own, until)
	}
	switch {
	case err != nil:
		return notAccepted(), true
	case how == renewal.Renewed: // a new master lacked the move to us
		return a.sendAfresh(until), true
	}
	a.own.Ended(how)
	a.disown()
	return Result{}, false
}

// superseded handles a hold that this connection tracks and Redis does not have. Either its owner
// ended it by another way, and the attempt goes on for a new hold, or it is lost.
func (a *lockRequest) superseded(until time.Time) Result {
	if a.graceRetries < maxGraceRetries && !a.copyPending {
		switch how, err := a.carrier.Acquirer.Restore(a.own, until); {
		case err != nil:
			return notAccepted()
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
func (a *lockRequest) sendAfresh(until time.Time) Result {
	a.graceRetries++
	a.number = a.carrier.Requests.Add(1)
	return a.sendOnce(until)
}

// ownGone settles the carrier's own hold that Redis does not have. If it was lost, or nobody knows,
// r is the answer. If its owner ended it by another way, the request goes on without it.
func (a *lockRequest) ownGone(until time.Time) (r Result, lost bool) {
	if r, lost = a.carrier.settleGone(a.own, until); !lost {
		a.disown()
	}
	return r, lost
}

// settleGone settles a hold of the carrier that Redis does not have, and whose requests are locked.
// If it was lost, or nobody knows, r is the answer. Otherwise its owner ended it by another way.
func (c *Carrier) settleGone(own *hold.Hold, until time.Time) (r Result, lost bool) {
	switch reason, err := c.Acquirer.SettleMissing(own, until); {
	case err != nil:
		return notAccepted(), true
	case reason != "":
		return Result{Kind: Failed, Err: c.ReportLoss(own, reason)}, true
	}
	return Result{}, false
}

// repeats reports whether the request, whose outcome is unknown, repeats the last acquire of
// the carrier's own hold. That acquire has counted already.
func (a *lockRequest) repeats() bool {
	return a.own != nil && a.options.ID != "" && a.own.Details().LastID == a.options.ID
}

// disown makes the request one for a new hold, because its own hold is over.
func (a *lockRequest) disown() {
	a.unlockOwn()
	a.options.TTL = a.askedTTL
}

// unlockOwn unlocks the requests of the own hold, if there is one.
func (a *lockRequest) unlockOwn() {
	if a.own != nil {
		a.own.UnlockRequests()
		a.own = nil
	}
}
