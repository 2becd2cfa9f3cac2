package lockcmd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// revoke ends a hold that this Leash does not carry, or does it under a client's ID. It reads who
// holds the lock, calls with what it read, and starts over if that has changed (R13).
func (c *Carrier) revoke(dst []byte, key string, o options, until time.Time) []byte {
	s := c.service
	id := o.id
	if id != "" {
		id = requestID(o.owner, id)
	} else {
		id = s.mint()
	}
	for i := range 16 {
		v := s.newRevoke(c.id(key), id, o.all)
		found, err := v.read(o, until)
		if err == nil && !found && v.answer == "" {
			return appendError(dst, msgNotHeld)
		}
		code := int64(notThere)
		if err == nil && v.answer != "" {
			code, _ = strconv.ParseInt(v.answer, 10, 64)
		} else if err == nil {
			code, err = v.send(until)
		}
		switch {
		case errors.Is(err, errUnknown), errors.Is(err, errRefused):
			if v.request == nil { // it has not come as far as to do anything
				return c.timeout(dst, msgRefused)
			}
			s.spawn(v.finish)
			return c.timeout(dst, msgReleaseLater)
		case err != nil:
			return appendError(dst, scriptError(err))
		case code != notThere:
			return appendInt(dst, code)
		case s.stopped(time.Duration(i) * time.Millisecond):
			// which its Leash has to end it, if it is to be broken
			return c.timeout(dst, msgRefused)
		}
	}
	return appendError(dst, msgNotHeld)
}

// revocation ends a hold, or takes a count of it, by another way than its carrier's own.
type revocation struct {
	service *Service
	db      int
	key     string
	id      string // under which the answer is kept
	all     bool

	// Set by read.
	mode    *mode
	owner   string
	carrier string
	token   int64
	answer  string // what this request was answered when it came before
	keep    int64  // ms for which the answer is kept, and the tombstone
	request *request
	local   *hold // the hold, when this Leash carries it

	ending *ending // of local, while the outcome is unknown
	word   string  // which no other has, for a tombstone that is laid before the hold has ended
	laid   bool    // one may say so
	doubt  bool    // it was asked for with one key a call, and the outcome was unknown
}

func (s *Service) newRevoke(lock lockID, id string, all bool) *revocation {
	return &revocation{service: s, db: lock.db, key: lock.key, id: id, all: all, word: s.mint()}
}

// read finds out whom the request is about. found is false when there is no such hold.
func (v *revocation) read(o options, until time.Time) (found bool, err error) {
	s := v.service
	if o.id != "" {
		if v.answer, err = s.value(v.db, answerKey(v.key, v.id), until); err != nil || v.answer != "" {
			return false, err
		}
	}
	l, f, found, err := s.seek(lockID{v.db, v.key}, o, until)
	if err == nil && !found && o.id != "" { // which may have come meanwhile
		v.answer, err = s.value(v.db, answerKey(v.key, v.id), until)
	}
	if err != nil || !found {
		return false, err
	}
	r := f.record
	v.mode, v.owner, v.carrier, v.token = f.mode, f.owner, r.carrier, r.token
	v.local = s.find(lockID{v.db, v.key}, func(h *hold) bool { return h.token == r.token && h.carrier.name == r.carrier })
	v.keep = max(r.ttl, s.cfg.WatchdogTimeout.Milliseconds(), l.left.Milliseconds())
	channel, ended, lessened := "", "", ""
	if v.local == nil {
		channel = carrierChannel(r.carrier)
		ended, lessened = newsText(releasedText, r.token, r.carrier, v.key), newsText(lessenedText, r.token, r.carrier, v.key)
	}
	all := ""
	if v.all {
		all = "all"
	}
	v.request = &request{
		script: v.mode.revoke, db: v.db,
		keys: v.mode.endKeys(v.key, v.owner, tombstoneKey(v.key, r.token, r.carrier), answerKey(v.key, v.id)),
		args: words(v.owner, v.token, v.carrier, all, v.mode.channel(v.key), s.cfg.publishMode(), v.keep, channel, ended, lessened),
	}
	return true, nil
}

// send carries the request out. A hold of this Leash is marked first, so that no renewal takes its
// end for a loss; while the outcome is unknown it stays marked, and its gate stays taken.
func (v *revocation) send(until time.Time) (code int64, err error) {
	h := v.local
	if h == nil {
		if code, err = v.call(until); err == nil && code == notThere {
			v.remind()
		}
		return code, err
	}
	if v.ending == nil {
		if !h.open(until) {
			return 0, errRefused
		}
		if v.ending = v.service.beginEnding(h, v.all); v.ending == nil {
			h.close()
			return notThere, nil
		}
	}
	err = v.ending.bury(until)
	if err == nil {
		code, err = v.call(until)
	}
	switch {
	case errors.Is(err, errUnknown):
		return code, err
	case err == nil && code != notThere:
		v.ending.settle(code)
	default:
		v.ending.resume()
		// it may be because it is to be broken, which found it marked as being released
		if err == nil {
			v.service.spawn(func() { v.service.obey(h) })
		}
	}
	v.ending = nil
	h.close()
	return code, err
}

// remind tells the Leash of a hold that was not to be released that it may have to be broken: it
// may not have heard so. It asks Redis itself.
func (v *revocation) remind() {
	ctx, cancel := context.WithDeadline(context.Background(), v.service.within(time.Now().Add(time.Second)))
	defer cancel()
	v.service.database(v.db).Publish(ctx, carrierChannel(v.carrier), newsText(brokenText, v.token, v.carrier, v.key))
}

// lost reports whether the hold's holder is being told of a loss, or has been.
func (v *revocation) lost(until time.Time) bool {
	own := len(v.mode.keys(v.key, v.owner))
	text, _ := v.service.value(v.db, v.request.keys[own], until)
	how, _, _ := strings.Cut(text, " ")
	return how == brokenText || how == lostText
}

func (v *revocation) call(until time.Time) (code int64, err error) {
	reply, err := v.service.ask(v.request, until)
	switch {
	case tryAgain(err):
		code, err = v.piecemeal(until)
	case err == nil:
		code = numbers(reply)[0]
	}
	if err == nil && code == notThere && v.doubt && !v.lost(until) {
		code = endedIt
	}
	if v.laid && (err == nil && code != endedIt || err != nil && !v.doubt && !v.request.doubt) {
		v.unlay()
	}
	return code, err
}

// tryAgain reports whether Redis refused because a slot migrates.
func tryAgain(err error) bool {
	var reply redis.Error
	return errors.Is(err, errRefused) && errors.As(err, &reply) && migrates(reply)
}

// piecemeal does what revoke.lua does with one key a call, for a slot in migration (R14). The
// tombstone is laid first: if the carrier finds the hold gone, it must find the reason too.
func (v *revocation) piecemeal(until time.Time) (int64, error) {
	s := v.service
	own := len(v.mode.keys(v.key, v.owner)) // how many keys are the lock's and its kind's
	kept := v.request.keys[own+1]
	if answer, err := s.value(v.db, kept, until); err != nil || answer != "" {
		code, _ := strconv.ParseInt(answer, 10, 64)
		return code, err
	}
	if v.local == nil {
		v.laid = true
		if _, err := s.number(v.tombstone(v.keep), until); err != nil {
			return 0, errors.Join(errRefused, err)
		}
	}
	if !v.doubt && v.lost(until) {
		return notThere, nil
	}
	one := &request{script: v.mode.revoke, db: v.db, keys: v.request.keys[:own], args: v.request.args}
	reply, err := s.insist(one, until)
	v.doubt = v.doubt || one.doubt
	if err != nil {
		return 0, err
	}
	code := numbers(reply)[0]
	ctx, cancel := context.WithDeadline(context.Background(), s.within(until))
	defer cancel()
	rdb := s.database(v.db)
	if code == endedIt && v.local == nil {
		rdb.Set(ctx, v.request.keys[own], releasedText, millis(v.keep)) // whatever it says
	}
	if code != notThere {
		rdb.Set(ctx, kept, strconv.FormatInt(code, 10), millis(v.keep))
	}
	return code, nil
}

// tombstone is the request to lay one for so many ms, or with 0 to take it away. That of others,
// and one that says more, stays.
func (v *revocation) tombstone(keep int64) *request {
	own := len(v.mode.keys(v.key, v.owner))
	return &request{script: layScript, db: v.db, keys: v.request.keys[own : own+1], args: words(v.word, keep)}
}

// unlay takes the tombstone away again: the hold has not ended, or not by this. What cannot be done
// soon is left to time.
func (v *revocation) unlay() {
	if _, err := v.service.number(v.tombstone(0), time.Now().Add(v.service.stonePatience())); err == nil {
		v.laid = false
	}
}

// finish repeats the request until Redis answers, or the hold's lease must be over (R26).
func (v *revocation) finish() {
	s := v.service
	for limit := time.Now().Add(millis(v.keep)); time.Now().Before(limit); {
		_, err := v.send(s.deadline())
		if !errors.Is(err, errUnknown) && !errors.Is(err, errRefused) || s.stopped(100*time.Millisecond) {
			break
		}
	}
	if e := v.ending; e != nil {
		if e.inner {
			e.resume() // what remains is still believed in
		}
		e.hold.forget(releasing)
		e.hold.close()
	}
}

// value reads a string; "" when there is none.
func (s *Service) value(db int, key string, until time.Time) (string, error) {
	for {
		text, err := s.get(db, key, until)
		switch {
		case err == nil, errors.Is(err, redis.Nil):
			return text, nil
		case judge(err) == answered:
			return "", err
		}
		if s.stopped(10*time.Millisecond) || time.Now().After(until) {
			return "", errors.Join(errRefused, err)
		}
	}
}

func (s *Service) get(db int, key string, until time.Time) (string, error) {
	if limit := time.Now().Add(maxAttempt); limit.Before(until) {
		until = limit
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.within(until))
	defer cancel()
	return s.database(db).Get(ctx, key).Result()
}
