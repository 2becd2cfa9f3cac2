package lockcmd

import (
	"errors"
	"time"

	"leash/renewal"
)

// Answers of the scripts that end holds.
const (
	endedIt  = 1  // the hold has ended
	countsOn = 0  // counts of it remain
	notThere = -1 // there is no such hold
	tooLate  = -2 // a request with a larger number came before: nothing was done
)

// ending is a release of a hold by its own Leash, on its way. The hold's gate is ours when it is
// sent.
type ending struct {
	service *Service
	hold    *hold
	all     bool
	// as a record has it, the ID of the acquire that is put back, which then has not been; "" for
	// an owner's release
	back string
	// counts remain, as far as this Leash knows: the hold is in state lessening, and kept; else in
	// releasing
	inner    bool
	late     bool      // the client has its answer already
	until    time.Time // of the hold
	number   int64
	request  *request // nil before the first attempt
	restored bool     // the hold was put back once, for it to be released
	moved    bool     // the hold hangs on another carrier by now, and no tombstone says so
	lessened bool     // the count was taken from the hold, though the master took another one
	buried   bool     // a tombstone keeps late requests from putting the hold back
	// who was told that the lock is free is this Leash, over the one subscription that all its
	// clients share
	alone  bool
	counts int64 // that the hold has, once it is released with one key a request; else 0
}

// beginEnding marks a present hold, whose gate is ours, as being released; nil when it is not held
// any more.
func (s *Service) beginEnding(h *hold, all bool) *ending {
	h.carrier.mu.Lock()
	inner := !all && h.count > 1
	h.carrier.mu.Unlock()
	if inner && h.settle(lessening, held) {
		return &ending{service: s, hold: h, inner: true, until: s.watchdog.Until(&h.watch)}
	}
	if inner || !h.settle(releasing, held) {
		return nil
	}
	return s.newEnding(h, all)
}

// newEnding takes h, which is in state releasing, from the watchdog before anything is sent:
// release beats renewal (R26).
func (s *Service) newEnding(h *hold, all bool) *ending {
	e := &ending{service: s, hold: h, all: all}
	// it was not kept: a second release of it, or a loose grant
	if e.until = s.watchdog.Remove(&h.watch); e.until.IsZero() {
		h.carrier.mu.Lock()
		e.until = time.Now().Add(h.ttl)
		h.carrier.mu.Unlock()
	}
	return e
}

// renumber makes the request, with a number above those of all that had the gate before.
func (e *ending) renumber() {
	h, s := e.hold, e.service
	doubt, owner := e.request != nil && e.request.doubt, h.owner()
	e.number, e.counts = h.carrier.requests.Add(1), 0
	e.request = &request{
		script: h.mode().release, db: int(h.db), keys: h.mode().releaseKeys(h.key(), owner), least: h.mode().least(h.key(), owner),
		args:  append(e.args(owner), h.mode().channel(h.key()), s.cfg.publishMode()),
		doubt: doubt,
	}
}

func (e *ending) args(owner string) []string {
	what := e.back
	if e.all {
		what = "all"
	}
	return append(make([]string, 0, 7), owner, decimal(e.hold.token), e.hold.carrier.name, decimal(e.number), what)
}

// send carries the release out, and settles the hold when it knows how: the answer is endedIt,
// countsOn or notThere.
func (e *ending) send(until time.Time) (code int64, err error) {
	s := e.service
	if e.request == nil {
		if err = s.reassert(e.hold, until); err != nil {
			return 0, err
		}
		if err = e.bury(until); err != nil {
			return 0, err
		}
		e.renumber()
	}
	sent := time.Now()
	if e.hold.mode().handover != nil && !s.draining.Load() && e.frees() {
		w, claimed := s.queues.claim(e.hold, e.hold.handed())
		if w != nil && !claimed {
			defer func() { s.queues.goOn(w, e.alone) }()
		}
		if claimed {
			code, known := e.handOver(w, until)
			if known && code != tooLate && (code != notThere || s.graces == nil) {
				if code, err = e.right(code, sent, until); err != nil || code != tooLate {
					return e.conclude(code, until, err)
				}
			}
		}
	}
	for {
		if code, err = e.ask(until); err != nil {
			return 0, err
		}
		if code == notThere && !e.restored {
			how, err := s.restore(e.hold, until)
			if err != nil {
				return 0, err
			}
			e.moved = how == renewal.Moved
			// it was forgotten, and nobody got it meanwhile
			if e.restored = how == renewal.Renewed; e.restored {
				if err = e.bury(until); err != nil {
					return 0, err
				}
				e.renumber()
				continue
			}
		}
		if code == notThere && e.buried { // nor will it be
			code = endedIt
		}
		if code != tooLate {
			code, err = e.right(code, sent, until)
		}
		if err != nil || code != tooLate {
			return e.conclude(code, until, err)
		}
		if time.Now().After(until) {
			return 0, errRefused
		}
		// a later request, the second undo of an acquire, came first: this one has done nothing,
		// and no copy of it will
		e.renumber()
	}
}

// frees reports whether the lock is free after the release, as far as this Leash knows.
func (e *ending) frees() bool {
	h := e.hold
	return !h.mode().shared || e.service.find(h.lock(), func(other *hold) bool { return other != h }) == nil
}

// handOver ends the hold and grants the lock to w in one script (R21). known is false when it has
// to be asked again by a plain release, which carries the same number and so acts only if this has
// not.
func (e *ending) handOver(w *waiter, until time.Time) (code int64, known bool) {
	s, t := e.service, w.try
	h := e.hold
	owner := h.owner()
	args := append(e.args(owner), t.owner, t.carrier.name, decimal(t.number))
	r := &request{
		script: h.mode().handover, db: int(h.db), keys: h.mode().endKeys(h.key(), owner, tokenKey(h.key())),
		least: h.mode().least(h.key(), owner) + 1,
		args:  append(t.appendGrantArgs(args), h.mode().channel(h.key()), s.cfg.publishMode(), t.wish.mode.name),
	}
	reply, err := s.ask(r, until)
	e.request.doubt = e.request.doubt || r.doubt
	n := numbers(reply)
	given := err == nil && n[0] == endedIt && len(n) > 2
	var present bool
	if given {
		grant := result{kind: granted, token: n[1], left: millis(n[2]), sent: r.sent, handed: h.handed() + 1}
		s.stats.handovers.Add(1)
		if present = s.queues.give(w, grant, r.doubt); !present {
			h, _ := t.hold(grant)
			s.endLoose(h)
		}
	} else {
		present = s.queues.unclaim(w, r.doubt)
	}
	if !present && r.doubt {
		s.spawn(func() { s.takeBackTwice(t) })
	}
	if err != nil {
		// an error of a script says little of how far it came
		e.request.doubt = e.request.doubt || !errors.Is(err, errRefused)
		return 0, false
	}
	return n[0], true
}

// conclude settles the hold. One that is not there, while copies of a release of one of its counts
// are about, may have been ended by one: others may have taken counts unheard. It has been so,
// unless a tombstone says otherwise, as long as the client hears in the answer that the hold has
// ended; one that was told to wait would go on believing in the rest, and hears of a loss.
func (e *ending) conclude(code int64, until time.Time, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	if code == notThere && e.inner && e.request.doubt && !e.late {
		switch how, err := e.service.tombstone(e.hold, until); {
		case err != nil:
			return 0, err
		case how == renewal.Gone, how == renewal.Released:
			code = endedIt
		}
	}
	return e.settle(code), nil
}

// settle brings the hold up to date with the answer.
func (e *ending) settle(code int64) int64 {
	h := e.hold
	if code == countsOn {
		if !e.lessened {
			h.lessen(e.back)
		}
		e.resume()
		return code
	}
	if code == notThere && e.request.doubt && !e.inner {
		code = endedIt // an earlier copy has ended it
	}
	if code == endedIt {
		e.service.stats.releases.Add(1)
		h.forget(lessening, releasing)
		h.tellEnd("") // if it was in nobody's books any more
	}
	return code
}

// resume lets the hold, of which counts remain, be kept on. If it was evicted, or its connection
// has ended meanwhile, it is settled as that says.
func (e *ending) resume() {
	h, s, c := e.hold, e.service, e.hold.carrier
	if e.buried {
		e.exhume()
	}
	c.mu.Lock()
	if h.state == over { // it was lost meanwhile
		c.mu.Unlock()
		return
	}
	missed := h.missed
	h.missed = false
	ended, release := c.ended || h.evicted, h.evicted || h.endsWithLocked(c.how)
	if !ended {
		h.state = held
		s.watchdog.Add(&h.watch, h.plan(e.until))
		c.expectLocked(h, e.until)
	}
	c.mu.Unlock()
	switch {
	case ended && release:
		s.endAll([]*hold{h})
	case ended:
		h.tellLeft()
		h.forget(lessening, releasing)
		s.limits.leave(c, []*hold{h}, time.Time{})
	case missed:
		s.watchdog.Check(&h.watch)
	}
}

// reply answers the client, on a connection that need not be the hold's.
func (e *ending) reply(c *Carrier, dst []byte, code int64) []byte {
	switch code {
	case endedIt, countsOn:
		return appendInt(dst, code)
	}
	lost, err := e.missing()
	switch {
	case err != nil:
		return e.hold.carrier.timeout(dst, msgRefused)
	case lost != "":
		c.told(e.hold)
		return appendError(dst, msgLost(e.hold.key(), lost))
	}
	return appendError(dst, msgNotHeld)
}

// missing settles a hold that is not there any more: it was ended by another way of the owner's, or
// it is lost, for the reason returned. While nobody can say which, the watchdog is to find out.
func (e *ending) missing() (lost string, err error) {
	h, s := e.hold, e.service
	how, err := s.tombstone(h, s.deadline())
	switch {
	case h.ended(), h.leaseOver(e.until):
		h.forget(lessening, releasing)
		return "", nil
	case err == nil && rightful(how):
		h.Ended(how)
		return "", nil
	case e.moved:
		h.Ended(renewal.Moved)
		return "", nil
	case err != nil:
		e.resume()
		s.watchdog.Check(&h.watch)
		return "", err
	case how == renewal.Broken:
		lost = renewal.ReasonBroken
	default:
		lost = renewal.ReasonGone
	}
	e.lose(lost)
	return lost, nil
}

func (e *ending) lose(reason string) {
	e.hold.settle(held, lessening, releasing)
	e.hold.Lost(reason)
}

// leaseOver reports whether h was a lease that has run out by itself.
func (h *hold) leaseOver(until time.Time) bool {
	h.carrier.mu.Lock()
	defer h.carrier.mu.Unlock()
	return h.lease && !time.Now().Before(until)
}

// finish repeats a release until Redis answers or the hold must be over by itself (R26). It closes
// the gate.
func (e *ending) finish() {
	h, s := e.hold, e.service
	defer h.close()
	e.late = true
	for e.goesOn() {
		code, err := e.send(s.deadline())
		switch {
		case errors.Is(err, errUnknown), errors.Is(err, errRefused):
			if s.stopped(100 * time.Millisecond) {
				h.forget(lessening, releasing)
				return
			}
			continue
		case err == nil && code == countsOn:
			return
		case err == nil && code == notThere && e.inner && !h.ended():
			e.missing()
			return
		case err != nil && e.inner: // the count that was to go stays
			s.log.Warn("redis refuses a release", "key", h.key(), "err", err)
			e.resume()
			return
		case err != nil:
			s.log.Warn("redis refuses a release", "key", h.key(), "err", err)
		case code == notThere && !e.request.doubt:
			// it may hang elsewhere, unheard: who watches it is to look
			h.tellEnd(movedText)
		}
		break
	}
	if h.is(lessening) { // it was missed, and nobody says whether it was lost
		e.lose(renewal.ReasonGone)
	}
	h.forget(lessening, releasing)
}

// goesOn reports whether there is a hold left to be released. While the watchdog keeps the rest of
// it, it says so itself.
func (e *ending) goesOn() bool {
	h := e.hold
	if h.is(lessening) {
		if until := e.service.watchdog.Until(&h.watch); !until.IsZero() {
			e.until = until
		}
		return !h.wasMissed() || time.Now().Before(e.until)
	}
	return time.Now().Before(e.until.Add(e.service.cfg.WatchdogTimeout)) && !(e.inner && h.is(over))
}
