package release

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// maxReads is how often a release starts again because the hold has changed since it was read.
const maxReads = 16

// ReleaseAnywhere releases a hold of any carrier: one count of it, or all. It reads who holds the
// lock, calls the script with that, and starts again if it has changed (R13). With an ID of the
// owner's, a repetition gets the answer of the first request. The code is as of Release. After a
// transport.ErrUnknown the release goes on in the background.
func (r *Releaser) ReleaseAnywhere(lock script.Lock, which hold.Selector, id string, all bool,
	until time.Time) (code int64, err error) {
	answerID := r.Holds.NewID()
	if id != "" {
		answerID = script.RequestID(which.Owner, id)
	}
	for i := range maxReads {
		rr := &remote{Releaser: r, lock: lock, id: answerID, all: all}
		code, found, err := rr.read(which, id != "", until)
		if err != nil || !found {
			return code, err
		}
		code, err = rr.send(until)
		switch {
		case transport.IsSilence(err):
			r.Tasks.Spawn(rr.finish)
			return 0, transport.ErrUnknown
		case err != nil, code != script.NoSuchHold:
			return code, err
		case r.Redis.StoppedWithin(time.Duration(i) * time.Millisecond):
			// If the hold is marked as broken, its Leash has this time to end it.
			return 0, transport.ErrRefused
		}
	}
	return script.NoSuchHold, nil
}

// remote ends a hold, or takes one count of it, without its carrier.
type remote struct {
	*Releaser
	lock script.Lock
	id   string // the answer is kept under this ID
	all  bool

	// Set by read.
	revoke script.RevokeArgs // which hold
	local  *hold.Hold        // the hold, if this Leash carries it

	release        *request // of local, while the outcome is unknown
	outcomeUnknown bool     // requests with one key a call have an unknown outcome
}

// read finds the hold. If there is no such hold, found is false, and code is the answer: the one to
// an earlier copy of this request, if it may be repeated, or script.NoSuchHold.
func (rr *remote) read(which hold.Selector, repeated bool, until time.Time) (code int64, found bool, err error) {
	if repeated {
		if code, err = rr.keptAnswer(until); err != nil || code != script.NoSuchHold {
			return code, false, err
		}
	}
	info, f, found, err := rr.Seek(rr.lock, which, until)
	switch {
	case err != nil:
		return 0, false, err
	case !found && repeated: // the answer may have come in between
		code, err = rr.keptAnswer(until)
		return code, false, err
	case !found:
		return script.NoSuchHold, false, nil
	}
	ref := f.Ref(rr.lock)
	rr.local = rr.Holds.FindRef(ref)
	rr.revoke = script.RevokeArgs{
		Mode: f.Mode, Owner: f.Owner, Hold: ref, All: rr.all, AnswerID: rr.id,
		Keep: max(script.Millis(f.Record.TTL), rr.Holds.TTL, info.Left),
	}
	if rr.local == nil {
		rr.revoke.Ended = event.Text(event.Released, ref.Token, ref.Carrier, rr.lock.Key)
		rr.revoke.Decremented = event.Text(event.Decremented, ref.Token, ref.Carrier, rr.lock.Key)
	}
	return 0, true, nil
}

// keptAnswer is the answer to an earlier copy of this request; script.NoSuchHold if there is none.
func (rr *remote) keptAnswer(until time.Time) (code int64, err error) {
	text, err := rr.Redis.Value(rr.lock.DB, script.AnswerKey(rr.lock.Key, rr.id), until)
	if err != nil || text == "" {
		return script.NoSuchHold, err
	}
	code, _ = strconv.ParseInt(text, 10, 64)
	return code, nil
}

// send sends the request. A hold of this Leash goes to a state of release first, so that no renewal
// takes its end for a loss. While the outcome is unknown, it stays in that state and its requests
// stay locked.
func (rr *remote) send(until time.Time) (code int64, err error) {
	h := rr.local
	if h == nil {
		if code, err = rr.callScript(until); err == nil && code == script.NoSuchHold {
			// A BREAK may have marked it, and the first event may be lost. That Leash asks Redis.
			event.Send(rr.Redis, event.Broken, rr.revoke.Hold, time.Now().Add(time.Second))
		}
		return code, err
	}
	if rr.release == nil {
		if !h.LockRequests(until) {
			return 0, transport.ErrRefused
		}
		if rr.release = rr.begin(h, rr.all); rr.release == nil {
			h.UnlockRequests()
			return script.NoSuchHold, nil
		}
	}
	code, err = rr.callScript(until)
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
func (rr *remote) isLost(until time.Time) bool {
	text, _ := rr.Redis.Tombstone(rr.revoke.Hold, until)
	how, _, _ := strings.Cut(text, " ")
	return how == event.Broken || how == event.Lost
}

// callScript sends the script once. With one key a call, it also writes what the script would have
// written to the other keys, and sends the event last. A renewal in between finds a loss.
func (rr *remote) callScript(until time.Time) (code int64, err error) {
	code, err = rr.Redis.Revoke(&rr.revoke, until)
	perKey := transport.KeysSplit(err)
	if perKey {
		code, err = rr.callPerKey(until)
	}
	if err == nil && code == script.NoSuchHold && rr.outcomeUnknown && !rr.isLost(until) {
		code, perKey = script.HoldEnded, true
	}
	if err != nil || code == script.NoSuchHold || !perKey {
		return code, err
	}
	ref, how := rr.revoke.Hold, event.Decremented
	if code == script.HoldEnded && rr.local == nil {
		how = event.Released
		_ = rr.Redis.OverwriteTombstone(ref, how, rr.revoke.Keep, until)
	}
	_ = rr.Redis.KeepAnswer(rr.lock, rr.id, code, rr.revoke.Keep, until)
	if rr.local == nil {
		event.Send(rr.Redis, how, ref, until)
	}
	return code, nil
}

// callPerKey ends the hold, or takes the count, in the keys of the hold alone. It is for a slot
// migration (R14).
func (rr *remote) callPerKey(until time.Time) (code int64, err error) {
	if code, err = rr.keptAnswer(until); err != nil || code != script.NoSuchHold {
		return code, err
	}
	if !rr.outcomeUnknown && rr.isLost(until) {
		return script.NoSuchHold, nil
	}
	one := rr.revoke
	one.Unknown, one.Ended, one.Decremented = false, "", ""
	code, err = rr.Redis.RevokeOwnKeys(&one, until)
	rr.outcomeUnknown = rr.outcomeUnknown || one.Unknown
	return code, err
}

// finish repeats the request until Redis answers or the hold's lease must be over (R26).
func (rr *remote) finish() {
	rr.Redis.Repeat(time.Now().Add(rr.revoke.Keep), func(until time.Time) error {
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

// ReleasePermit gives a permit back that another Leash carries. Without an answer, the error is
// transport.ErrUnknown, and it goes on in the background.
func (r *Releaser) ReleasePermit(lock script.Lock, permit string, until time.Time) (given bool, err error) {
	args := &script.PermitRevokeArgs{Permit: permit, Hold: script.Ref{Lock: lock}}
	if given, err = r.revokePermit(args, until); transport.IsSilence(err) {
		err = transport.ErrUnknown
		limit := time.Now().Add(r.Holds.TTL)
		r.Tasks.Spawn(func() {
			r.Redis.Repeat(limit, func(until time.Time) error {
				_, err := r.revokePermit(args, until)
				return err
			})
		})
	}
	return given, err
}

// revokePermit asks who the carrier of a permit is, calls the script with that, and starts again if
// it has changed (R13).
func (r *Releaser) revokePermit(args *script.PermitRevokeArgs, until time.Time) (given bool, err error) {
	for range maxReads {
		done, err := r.Redis.RevokePermit(args, until)
		switch {
		case err != nil:
			return false, err
		case done.Given, !done.Changed && args.Unknown:
			r.Releases.Add(1)
			return true, nil
		case !done.Changed:
			return false, nil
		}
		args.Hold, args.Keep = done.Hold, max(done.TTL, r.Holds.TTL)
		args.Event = event.Text(event.Released, done.Hold.Token, done.Hold.Carrier, done.Hold.Lock.Key)
	}
	return false, transport.ErrRefused
}
