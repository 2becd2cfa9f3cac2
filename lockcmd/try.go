package lockcmd

import (
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/renewal"
)

// try is one ACQUIRE on its way: however often it is sent, it acts once.
type try struct {
	carrier *Carrier
	wish    wish
	owner   string
	minted  int64 // the owner's number, if it is one of its own; else 0
	came    int64 // FAIR, and it waits: the later it came the higher; else 0
	number  int64
	late    bool // a copy of it may still reach Redis, after it is over
	// TTL or LEASE; the wish's may be less, for a lease is not to outlast own's MAXHOLD
	asked time.Duration
	// the carrier's hold of this owner, to be entered again; nil for a new one. Its gate is ours
	own     *hold
	request *request
	silence int64     // on the channel of its line, before it was sent
	end     time.Time // of BLOCK; zero when there is none
	bars    int       // how often it met a master that might grant by then
	bundle  *bundle   // of the hold that it makes; nil for none
	move    *move     // of unknown outcome, of the hold that its ID names; else nil
}

// result is how a try, or the wait for a lock, went.
type result struct {
	kind  kind
	token int64 // taken: that of who got it last, 0 when that is not known
	// for how long the lease lasts, the other's or ours; <= 0 when that is not known
	left time.Duration
	sent time.Time // from when left counts
	text string    // failed: the error to answer

	copied int64 // granted or moved: how many replicas have it, if that was asked
	again  bool  // granted: an earlier request with the same ID has counted, and this one does not
	handed int   // granted: within how many releases in a row, of which this one was the last

	// Of what a line is for:
	rest int64 // granted: the permits left for others
	open bool  // granted: to all who wait, as a latch is

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

func (c *Carrier) newTry(w wish, own *hold) *try {
	t := &try{carrier: c, wish: w, owner: w.owner, number: c.requests.Add(1), own: own, asked: w.ttl}
	if t.owner == "" {
		t.minted = c.service.owners.Add(1)
		t.owner = c.service.ownerName(t.minted)
	}
	if t.stands() {
		t.came = c.service.leavers.came.Add(1)
	}
	if w.block > 0 {
		t.end = time.Now().Add(w.block)
	}
	t.renew()
	return t
}

// renew makes the request to be sent.
func (t *try) renew() {
	want := "0"
	if t.own != nil {
		want = strconv.FormatInt(t.own.token, 10)
	}
	m, key := t.wish.mode, t.wish.key
	t.request = &request{
		script: m.acquire, db: t.wish.db, keys: m.keys(key, t.owner, tokenKey(key)),
		args: t.appendGrantArgs(append(make([]string, 0, 11), t.owner, t.carrier.name, decimal(t.number), want)),
	}
	if m.fair {
		t.request.keys = append(t.request.keys, m.queue(key)...)
		t.request.args = append(t.request.args, t.patience(), m.channel(key), t.carrier.service.cfg.publishMode(), t.carrier.service.way)
	}
}

// appendGrantArgs appends what the scripts need to make a hold, from the TTL on.
func (t *try) appendGrantArgs(args []string) []string {
	w, s := &t.wish, t.carrier.service
	return append(args,
		millisText(w.ttl), w.options(), millisText(s.cfg.TokenTTL), recordID(w.id), recordClient(t.carrier.host.Client()), w.more(),
		s.graces.may(w.key),
	)
}

// mayArg is the place of the master that may grant among the arguments of an acquire.
const mayArg = 10

// send looks once whether the lock can be had. What is not known at until is unknown.
func (t *try) send(until time.Time) result {
	r := t.sendOnce(until)
	if (r.kind == granted || r.kind == moved) && r.copied < t.wish.replicas {
		return t.uncopied(r)
	}
	return r
}

func (t *try) sendOnce(until time.Time) result {
	s := t.carrier.service
	t.request.copies, t.request.patience = t.wish.replicas, t.replicaPatience()
	t.request.args[mayArg] = s.graces.may(t.wish.key)
	reply, err := s.ask(t.request, until)
	t.late = t.late || t.request.doubt
	t.request.doubt = false
	if err != nil {
		return failure(err)
	}
	n := numbers(reply)
	switch {
	case n[0] == 0 && len(n) > 1:
		r := result{kind: taken, left: millis(n[1])}
		if len(n) > 2 {
			r.token = n[2]
		}
		return r
	case n[0] == 1 && len(n) > 2:
		again := len(n) > 3 && n[3] == 1
		return result{kind: granted, token: n[1], left: millis(n[2]), sent: t.request.sent, copied: t.request.copied, again: again}
	case n[0] == 2:
		return t.elsewhere(word(reply, 1), word(reply, 2), word(reply, 3), until)
	case n[0] == 3:
		return t.superseded(until)
	case n[0] == 5:
		return result{kind: failed, text: msgKind}
	case n[0] == 6:
		return t.barred(word(reply, 1), until)
	case n[0] == 7: // each time fewer dead wait
		return t.sendOnce(until)
	}
	return result{kind: unknown}
}

// barred is what becomes of a try at a free lock that the master with that replication id may not
// grant, as far as was known.
func (t *try) barred(replid string, until time.Time) result {
	r, again := t.carrier.service.bar(t.wish.key, replid, until)
	if !again {
		return r
	}
	if t.bars++; t.bars > maxBars {
		t.bars = 0
		return result{kind: busy, text: msgRefused}
	}
	return t.sendOnce(until)
}

// maxBars is how often in a row a try may meet a master that it has to get to know.
const maxBars = 3

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
	if tryAgain(err) {
		return ""
	}
	var reply redis.Error
	if errors.As(err, &reply) && redis.HasErrorPrefix(reply, "NOREPLICAS") {
		return scriptError(reply)
	}
	return msgRefused
}

// elsewhere is what becomes of an owner whose hold hangs on another carrier: its last request,
// repeated, moves it here (R4).
func (t *try) elsewhere(token, carrier, id string, until time.Time) (r result) {
	n, err := strconv.ParseInt(token, 10, 64)
	back := err == nil && t.wish.id != "" && id == recordID(t.wish.id)
	if t.own != nil {
		if r, lost := t.ownElsewhere(n, back, until); lost {
			return r
		}
	}
	if !back {
		return result{kind: failed, text: msgElsewhere}
	}
	m := t.newMove(n, carrier, "")
	if r = m.send(until); r.kind == unknown {
		t.move = m // which is to be finished
		return r
	}
	m.close()
	return r
}

// ownElsewhere settles the carrier's own hold when its owner's hangs on another connection, with
// that token (0 if it is unreadable). With another token than its own it has ended, and may have
// been lost: then the result is to be answered (R26). Else it was moved away; if it is to come back
// now, it does so as a new hold, for the old one's end may be on its way.
func (t *try) ownElsewhere(token int64, back bool, until time.Time) (r result, lost bool) {
	if t.own.token != token {
		return t.ownGone(until)
	}
	s, how, err := t.carrier.service, renewal.Repeated, error(nil)
	if !back {
		how, err = s.tombstone(t.own, until)
	}
	if err == nil && !rightful(how) && t.bars < maxBars && !t.late {
		how, err = s.restore(t.own, until)
	}
	switch {
	case err != nil:
		return result{kind: busy, text: msgRefused}, true
	case how == renewal.Renewed: // a new master had forgotten that it was moved here
		return t.sendAfresh(until), true
	}
	t.own.Ended(how)
	t.disown()
	return result{}, false
}

// superseded is what becomes of an owner whose hold this connection tracks and Redis does not have:
// it was ended by another way of the owner's, and then this try is one for a new hold; or it is
// lost.
func (t *try) superseded(until time.Time) result {
	if t.bars < maxBars && !t.late {
		switch how, err := t.carrier.service.restore(t.own, until); {
		case err != nil:
			return result{kind: busy, text: msgRefused}
		case how == renewal.Renewed: // a new master had forgotten it
			return t.sendAfresh(until)
		}
	}
	if r, lost := t.ownGone(until); lost {
		return r
	}
	return t.sendOnce(until)
}

// sendAfresh sends a try about a hold that has been put back meanwhile, under a number above that
// of its record.
func (t *try) sendAfresh(until time.Time) result {
	t.bars++
	t.number = t.carrier.requests.Add(1)
	t.renew()
	return t.sendOnce(until)
}

// ownGone settles the carrier's own hold, which is not there any more. It was lost, or nobody can
// say: then the result is to be answered. Else it was ended by another way of the owner's, and the
// try goes on without it.
func (t *try) ownGone(until time.Time) (r result, lost bool) {
	switch reason, err := t.own.fate(until); {
	case err != nil:
		return result{kind: busy, text: msgRefused}, true
	case reason != "":
		t.carrier.told(t.own)
		return result{kind: failed, text: msgLost(t.own.key(), reason)}, true
	}
	t.disown()
	return result{}, false
}

// repeats reports whether t, of which no answer is known, repeats the last acquire of the carrier's
// own hold: that one has counted, and this one does not.
func (t *try) repeats() bool { return t.own != nil && t.wish.id != "" && t.own.lastID() == t.wish.id }

// disown makes the try one for a new hold: its own is over.
func (t *try) disown() {
	t.release()
	t.wish.ttl = t.asked
	t.renew()
}

// release gives the gate of the hold back, if the try has one.
func (t *try) release() {
	if t.own != nil {
		t.own.close()
		t.own = nil
	}
}
