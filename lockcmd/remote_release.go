package lockcmd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// releaseRemotely ends a hold that this Leash does not carry, or releases under a client's ID. It
// reads who holds the lock, calls the script with that, and starts again if it has changed (R13).
func (c *Carrier) releaseRemotely(dst []byte, key string, o options, until time.Time) []byte {
	s, id := c.service, ""
	if o.id != "" {
		id = script.RequestID(o.Owner, o.id)
	} else {
		id = s.holds.NewID()
	}
	for i := range 16 {
		rr := s.newRemoteRelease(c.id(key), id, o.all)
		found, err := rr.read(o, until)
		if err == nil && !found && rr.answer == "" {
			return appendError(dst, msgNotHeld)
		}
		code := int64(script.NoSuchHold)
		if err == nil && rr.answer != "" {
			code, _ = strconv.ParseInt(rr.answer, 10, 64)
		} else if err == nil {
			code, err = rr.send(until)
		}
		switch {
		case transport.IsSilence(err) && rr.revoke.Mode != nil:
			s.spawn(rr.finish)
			return c.timeout(dst, msgReleaseLater)
		case err != nil: // or nothing was sent
			return c.replyError(dst, err, msgRefused)
		case code != script.NoSuchHold:
			return appendInt(dst, code)
		case s.redis.StoppedWithin(time.Duration(i) * time.Millisecond):
			// If the hold is marked as broken, its Leash has this time to end it.
			return c.timeout(dst, msgRefused)
		}
	}
	return appendError(dst, msgNotHeld)
}

// remoteRelease ends a hold, or takes one count of it, without its carrier.
type remoteRelease struct {
	service *Service
	lock    script.Lock
	id      string // the answer is kept under this ID
	all     bool

	// Set by read.
	answer string            // the answer to an earlier copy of this request
	revoke script.RevokeArgs // which hold
	local  *hold.Hold        // the hold, if this Leash carries it

	release          *releaseRequest // of local, while the outcome is unknown
	tombstoneText    string          // a unique text, for a tombstone that comes before the end
	tombstoneWritten bool            // there may be such a tombstone
	outcomeUnknown   bool            // requests with one key a call have an unknown outcome
}

func (s *Service) newRemoteRelease(lock script.Lock, id string, all bool) *remoteRelease {
	return &remoteRelease{service: s, lock: lock, id: id, all: all, tombstoneText: s.holds.NewID()}
}

// read finds the hold. found is false when there is no such hold.
func (rr *remoteRelease) read(o options, until time.Time) (found bool, err error) {
	s := rr.service
	if o.id != "" {
		if rr.answer, err = rr.keptAnswer(until); err != nil || rr.answer != "" {
			return false, err
		}
	}
	info, f, found, err := s.restorer.Seek(rr.lock, o.Selector, until)
	if err == nil && !found && o.id != "" { // the answer may have come in between
		rr.answer, err = rr.keptAnswer(until)
	}
	if err != nil || !found {
		return false, err
	}
	ref := f.Ref(rr.lock)
	rr.local = s.holds.FindRef(ref)
	rr.revoke = script.RevokeArgs{
		Mode: f.Mode, Owner: f.Owner, Hold: ref, All: rr.all, AnswerID: rr.id,
		Keep: max(script.Millis(f.Record.TTL), s.cfg.WatchdogTimeout, info.Left),
	}
	if rr.local == nil {
		rr.revoke.Ended = event.Text(event.Released, ref.Token, ref.Carrier, rr.lock.Key)
		rr.revoke.Decremented = event.Text(event.Decremented, ref.Token, ref.Carrier, rr.lock.Key)
	}
	return true, nil
}

// keptAnswer is the answer to an earlier copy of this request; "" if there is none.
func (rr *remoteRelease) keptAnswer(until time.Time) (string, error) {
	return rr.service.redis.Value(rr.lock.DB, script.AnswerKey(rr.lock.Key, rr.id), until)
}

// send sends the request. A hold of this Leash goes to a state of release first, so that no renewal
// takes its end for a loss. While the outcome is unknown, it stays in that state and its requests
// stay locked.
func (rr *remoteRelease) send(until time.Time) (code int64, err error) {
	h := rr.local
	if h == nil {
		if code, err = rr.callScript(until); err == nil && code == script.NoSuchHold {
			// A BREAK may have marked it, and the first event may be lost. That Leash asks Redis.
			event.Send(rr.service.redis, event.Broken, rr.revoke.Hold, time.Now().Add(time.Second))
		}
		return code, err
	}
	if rr.release == nil {
		if !h.LockRequests(until) {
			return 0, transport.ErrRefused
		}
		if rr.release = rr.service.beginRelease(h, rr.all); rr.release == nil {
			h.UnlockRequests()
			return script.NoSuchHold, nil
		}
	}
	err = rr.release.blockRestore(until)
	if err == nil {
		code, err = rr.callScript(until)
	}
	switch {
	case errors.Is(err, transport.ErrUnknown):
		return code, err
	case err == nil && code != script.NoSuchHold:
		rr.release.applyAnswer(code)
	default:
		rr.release.resume()
	}
	rr.release = nil
	h.UnlockRequests()
	return code, err
}

// isLost reports whether the holder is being told of a loss, or has been.
func (rr *remoteRelease) isLost(until time.Time) bool {
	text, _ := rr.service.redis.Tombstone(rr.revoke.Hold, until)
	how, _, _ := strings.Cut(text, " ")
	return how == event.Broken || how == event.Lost
}

func (rr *remoteRelease) callScript(until time.Time) (code int64, err error) {
	if code, err = rr.service.redis.Revoke(&rr.revoke, until); transport.KeysSplit(err) {
		code, err = rr.callPerKey(until)
	}
	if err == nil && code == script.NoSuchHold && rr.outcomeUnknown && !rr.isLost(until) {
		code = script.HoldEnded
	}
	if rr.tombstoneWritten && (err == nil && code != script.HoldEnded || err != nil && !rr.outcomeUnknown &&
		!rr.revoke.Unknown) {
		rr.removeTombstone()
	}
	return code, err
}

// callPerKey does what revoke.lua does with one key a call, for a slot migration (R14). It writes
// the tombstone first: when the carrier's Leash finds the hold missing, it must find the reason.
func (rr *remoteRelease) callPerKey(until time.Time) (int64, error) {
	s := rr.service
	if answer, err := rr.keptAnswer(until); err != nil || answer != "" {
		code, _ := strconv.ParseInt(answer, 10, 64)
		return code, err
	}
	if rr.local == nil {
		rr.tombstoneWritten = true
		if _, err := rr.writeTombstone(rr.revoke.Keep, until); err != nil {
			return 0, errors.Join(transport.ErrRefused, err)
		}
	}
	if !rr.outcomeUnknown && rr.isLost(until) {
		return script.NoSuchHold, nil
	}
	one := rr.revoke
	one.Unknown = false
	code, err := s.redis.RevokeOwnKeys(&one, until)
	rr.outcomeUnknown = rr.outcomeUnknown || one.Unknown
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.redis.CapAtStop(until))
	defer cancel()
	if code == script.HoldEnded && rr.local == nil {
		// overwrites any text
		s.redis.OverwriteTombstone(ctx, one.Hold, event.Released, one.Keep)
	}
	if code != script.NoSuchHold {
		s.redis.Database(rr.lock.DB).Set(ctx, script.AnswerKey(rr.lock.Key, rr.id), code, one.Keep)
	}
	return code, nil
}

// writeTombstone writes the tombstone for so long, or removes it with 0. Texts of others, and a
// tombstone that says more, stay.
func (rr *remoteRelease) writeTombstone(keep time.Duration, until time.Time) (written bool, err error) {
	return rr.service.redis.WriteSharedTombstone(rr.revoke.Hold, rr.tombstoneText, keep, until)
}

// removeTombstone removes the tombstone, because this request has not ended the hold. What it
// cannot do soon expires by itself.
func (rr *remoteRelease) removeTombstone() {
	if _, err := rr.writeTombstone(0, time.Now().Add(rr.service.restorer.CorrectionTimeout())); err == nil {
		rr.tombstoneWritten = false
	}
}

// finish repeats the request until Redis answers or the hold's lease must be over (R26).
func (rr *remoteRelease) finish() {
	s := rr.service
	s.redis.Repeat(time.Now().Add(rr.revoke.Keep), func(until time.Time) error {
		_, err := rr.send(until)
		return err
	})
	if rel := rr.release; rel != nil {
		if rel.keepsCounts {
			rel.resume() // the owner still relies on the rest
		} else {
			rel.hold.Apply(hold.Ended)
		}
		rel.hold.UnlockRequests()
	}
}
