package lockcmd

import (
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/renewal"
)

// acquisition is one ACQUIRE on its way: however often it is sent, it acts once.
type acquisition struct {
	carrier     *Carrier
	options     acquireOptions
	owner       string
	ownerNumber int64 // the owner's number, if it is one of its own; else 0
	arrival     int64 // FAIR, and it waits: the later it came the higher; else 0
	number      int64
	copyPending bool // a copy of it may still reach Redis, after it is over
	// TTL or LEASE; the wish's may be less, for a lease is not to outlast own's MAXHOLD
	askedTTL time.Duration
	// the carrier's hold of this owner, to be entered again; nil for a new one. Its gate is ours
	own          *hold
	call         *scriptCall
	lastMessage  int64      // on the channel of its line, before it was sent
	end          time.Time  // of BLOCK; zero when there is none
	graceRetries int        // how often it met a master that might grant by then
	group        *holdGroup // of the hold that it makes; nil for none
	pendingMove  *move      // of unknown outcome, of the hold that its ID names; else nil
}

// result is how a try, or the wait for a lock, went.
type result struct {
	kind  kind
	token int64 // taken: that of who got it last, 0 when that is not known
	// for how long the lease lasts, the other's or ours; <= 0 when that is not known
	left time.Duration
	sent time.Time // from when left counts
	text string    // failed: the error to answer

	replicas  int64 // granted or moved: how many replicas have it, if that was asked
	repeated  bool  // granted: an earlier request with the same ID has counted, and this one does not
	handovers int   // granted: within how many releases in a row, of which this one was the last

	// Of what a line is for:
	permitsLeft int64 // granted: the permits left for others
	forAll      bool  // granted: to all who wait, as a latch is

	// Of a hold that was moved:
	count  int64
	age    time.Duration
	record record
}

type kind int

const (
	taken   kind = iota // somebody else holds it
	granted             // ours
	moved               // ours: a hold of another connection, moved here by its ID
	busy                // Redis does not take the request now; nothing was done (R14)
	unknown             // nobody knows
	failed              // an error to answer
	none                // there is no hold to be attached
)

func (c *Carrier) newAcquisition(opts acquireOptions, own *hold) *acquisition {
	a := &acquisition{carrier: c, options: opts, owner: opts.owner, number: c.requests.Add(1), own: own, askedTTL: opts.ttl}
	if a.owner == "" {
		a.ownerNumber = c.service.owners.Add(1)
		a.owner = c.service.ownerName(a.ownerNumber)
	}
	if a.waitsFair() {
		a.arrival = c.service.dequeuer.arrivals.Add(1)
	}
	if opts.block > 0 {
		a.end = time.Now().Add(opts.block)
	}
	a.buildCall()
	return a
}

// buildCall makes the request to be sent.
func (a *acquisition) buildCall() {
	want := "0"
	if a.own != nil {
		want = strconv.FormatInt(a.own.token, 10)
	}
	m, key := a.options.mode, a.options.key
	a.call = &scriptCall{
		script: m.acquire, db: a.options.db, keys: m.keys(key, a.owner, tokenKey(key)),
		args: a.appendGrantArgs(append(make([]string, 0, 11), a.owner, a.carrier.name, decimal(a.number), want)),
	}
	if m.fair {
		a.call.keys = append(a.call.keys, m.queue(key)...)
		a.call.args = append(a.call.args, a.fairTimeoutArg(), m.channel(key), a.carrier.service.cfg.publishMode(), a.carrier.service.fairBit)
	}
}

// appendGrantArgs appends what the scripts need to make a hold, from the TTL on.
func (a *acquisition) appendGrantArgs(args []string) []string {
	opts, s := &a.options, a.carrier.service
	return append(args,
		millisText(opts.ttl), opts.optionLetters(), millisText(s.cfg.TokenTTL), recordID(opts.id), recordClient(a.carrier.host.Client()), opts.ext(),
		s.graces.grantingMaster(opts.key),
	)
}

// masterArg is the place of the master that may grant among the arguments of an acquire.
const masterArg = 10

// send looks once whether the lock can be had. What is not known at until is unknown.
func (a *acquisition) send(until time.Time) result {
	r := a.sendOnce(until)
	if (r.kind == granted || r.kind == moved) && r.replicas < a.options.replicas {
		return a.undoUnreplicated(r)
	}
	return r
}

func (a *acquisition) sendOnce(until time.Time) result {
	s := a.carrier.service
	a.call.wantReplicas, a.call.replicaTimeout = a.options.replicas, a.replicaWait()
	a.call.args[masterArg] = s.graces.grantingMaster(a.options.key)
	reply, err := s.ask(a.call, until)
	a.copyPending = a.copyPending || a.call.outcomeUnknown
	a.call.outcomeUnknown = false
	if err != nil {
		return failure(err)
	}
	n := integersOf(reply)
	switch {
	case n[0] == 0 && len(n) > 1:
		r := result{kind: taken, left: millis(n[1])}
		if len(n) > 2 {
			r.token = n[2]
		}
		return r
	case n[0] == 1 && len(n) > 2:
		again := len(n) > 3 && n[3] == 1
		return result{kind: granted, token: n[1], left: millis(n[2]), sent: a.call.sent, replicas: a.call.gotReplicas, repeated: again}
	case n[0] == 2:
		return a.ownerElsewhere(textAt(reply, 1), textAt(reply, 2), textAt(reply, 3), until)
	case n[0] == 3:
		return a.superseded(until)
	case n[0] == 5:
		return result{kind: failed, text: msgKind}
	case n[0] == 6:
		return a.refusedInGrace(textAt(reply, 1), until)
	case n[0] == 7: // each time fewer dead wait
		return a.sendOnce(until)
	}
	return result{kind: unknown}
}

// refusedInGrace is what becomes of a try at a free lock that the master with that replication id may not
// grant, as far as was known.
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

// maxGraceRetries is how often in a row a try may meet a master that it has to get to know.
const maxGraceRetries = 3

func millis(n int64) time.Duration {
	return time.Duration(max(min(n, maxMillis), -maxMillis)) * time.Millisecond
}

// maxMillis keeps a number of Redis's from overflowing a time.Duration: it is 34 years.
const maxMillis = 1 << 40

// failure is a result for an error of ask.
func failure(err error) result {
	switch {
	case errors.Is(err, errUnknown):
		return result{kind: unknown}
	case errors.Is(err, errRefused):
		return result{kind: busy, text: refusedText(err)}
	}
	return result{kind: failed, text: scriptError(err)}
}

// refusedText keeps Redis's own word where clients do not take it for an invitation to try again
// blindly. There is none for a slot in migration: what cannot be granted there counts as taken
// (R14).
func refusedText(err error) string {
	if keysSplit(err) {
		return ""
	}
	var reply redis.Error
	if errors.As(err, &reply) && redis.HasErrorPrefix(reply, "NOREPLICAS") {
		return scriptError(reply)
	}
	return msgRefused
}

// ownerElsewhere is what becomes of an owner whose hold hangs on another carrier: its last request,
// repeated, moves it here (R4).
func (a *acquisition) ownerElsewhere(token, carrier, id string, until time.Time) (r result) {
	n, err := strconv.ParseInt(token, 10, 64)
	back := err == nil && a.options.id != "" && id == recordID(a.options.id)
	if a.own != nil {
		if r, lost := a.ownElsewhere(n, back, until); lost {
			return r
		}
	}
	if !back {
		return result{kind: failed, text: msgElsewhere}
	}
	m := a.newMove(n, carrier, "")
	if r = m.send(until); r.kind == unknown {
		a.pendingMove = m // which is to be finished
		return r
	}
	m.unlockOld()
	return r
}

// ownElsewhere settles the carrier's own hold when its owner's hangs on another connection, with
// that token (0 if it is unreadable). With another token than its own it has ended, and may have
// been lost: then the result is to be answered (R26). Else it was moved away; if it is to come back
// now, it does so as a new hold, for the old one's end may be on its way.
func (a *acquisition) ownElsewhere(token int64, back bool, until time.Time) (r result, lost bool) {
	if a.own.token != token {
		return a.ownGone(until)
	}
	s, how, err := a.carrier.service, renewal.Repeated, error(nil)
	if !back {
		how, err = s.readTombstone(a.own, until)
	}
	if err == nil && !endedByOwner(how) && a.graceRetries < maxGraceRetries && !a.copyPending {
		how, err = s.restore(a.own, until)
	}
	switch {
	case err != nil:
		return result{kind: busy, text: msgRefused}, true
	case how == renewal.Renewed: // a new master had forgotten that it was moved here
		return a.sendAfresh(until), true
	}
	a.own.Ended(how)
	a.disown()
	return result{}, false
}

// superseded is what becomes of an owner whose hold this connection tracks and Redis does not have:
// it was ended by another way of the owner's, and then this try is one for a new hold; or it is
// lost.
func (a *acquisition) superseded(until time.Time) result {
	if a.graceRetries < maxGraceRetries && !a.copyPending {
		switch how, err := a.carrier.service.restore(a.own, until); {
		case err != nil:
			return result{kind: busy, text: msgRefused}
		case how == renewal.Renewed: // a new master had forgotten it
			return a.sendAfresh(until)
		}
	}
	if r, lost := a.ownGone(until); lost {
		return r
	}
	return a.sendOnce(until)
}

// sendAfresh sends a try about a hold that has been put back meanwhile, under a number above that
// of its record.
func (a *acquisition) sendAfresh(until time.Time) result {
	a.graceRetries++
	a.number = a.carrier.requests.Add(1)
	a.buildCall()
	return a.sendOnce(until)
}

// ownGone settles the carrier's own hold, which is not there any more. It was lost, or nobody can
// say: then the result is to be answered. Else it was ended by another way of the owner's, and the
// try goes on without it.
func (a *acquisition) ownGone(until time.Time) (r result, lost bool) {
	switch reason, err := a.own.resolveMissing(until); {
	case err != nil:
		return result{kind: busy, text: msgRefused}, true
	case reason != "":
		a.carrier.markLossReported(a.own)
		return result{kind: failed, text: msgLost(a.own.key(), reason)}, true
	}
	a.disown()
	return result{}, false
}

// repeats reports whether t, of which no answer is known, repeats the last acquire of the carrier's
// own hold: that one has counted, and this one does not.
func (a *acquisition) repeats() bool {
	return a.own != nil && a.options.id != "" && a.own.lastID() == a.options.id
}

// disown makes the try one for a new hold: its own is over.
func (a *acquisition) disown() {
	a.unlockOwn()
	a.options.ttl = a.askedTTL
	a.buildCall()
}

// unlockOwn gives the gate of the hold back, if the try has one.
func (a *acquisition) unlockOwn() {
	if a.own != nil {
		a.own.unlockRequests()
		a.own = nil
	}
}
