package release

import (
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
	"leash/renewal"
)

// request is a release of a hold by its own Leash. The hold's requests are locked when it is sent.
type request struct {
	*Releaser
	hold *hold.Hold
	all  bool
	// ID of an acquire that is put back, in the form of a record; "" for a release by the owner
	putBackID string
	// counts remain as far as this Leash knows: the state was decrementing; otherwise releasing
	keepsCounts bool
	answered    bool      // the client has its answer
	until       time.Time // the hold is safe until then
	number      int64     // 0 before the first attempt
	// a copy may still be on its way
	outcomeUnknown bool
	// what came of restoring the missing hold, to release it
	restore      renewal.Outcome
	decremented  bool  // the count was taken here, though the master had another one
	perKeyCounts int64 // see script.ReleaseArgs
}

// begin moves a present hold, whose requests the caller has locked, to a state of release.
// It returns nil when the hold is not held any more.
func (r *Releaser) begin(h *hold.Hold, all bool) *request {
	counts, until, ok := h.BeginRelease(all)
	if !ok {
		return nil
	}
	return &request{Releaser: r, hold: h, all: all, keepsCounts: counts, until: until}
}

// renumber gives the request a number above all that locked the requests before.
func (rel *request) renumber() {
	rel.number, rel.perKeyCounts = rel.hold.Carrier.Requests.Add(1), 0
}

// endArgs say which hold ends.
func (rel *request) endArgs() script.EndArgs {
	h, what := rel.hold, rel.putBackID
	if rel.all {
		what = "all"
	}
	return script.EndArgs{Mode: h.Mode(), Owner: h.Owner(), Hold: h.Ref(), Request: rel.number, What: what}
}

// args say besides how the release tells waiters that the lock is free.
func (rel *request) args() script.ReleaseArgs {
	h := rel.hold
	id := wait.QueueOf(h.Lock(), h.Mode())
	return script.ReleaseArgs{
		End: rel.endArgs(), Turn: rel.Waiters.Entry(h.Mode().Unfair()), Waits: rel.Waiters.Waiting(id),
		TurnEvent: wait.TurnEvent(h.Lock(), h.Mode()), Unknown: rel.outcomeUnknown, PerKeyCounts: rel.perKeyCounts,
	}
}

// ask sends the release alone.
func (rel *request) ask(until time.Time) (code int64, err error) {
	args := rel.args()
	code, err = rel.Redis.Release(&args, until)
	if !args.Waits {
		rel.Waiters.LeftTurns(wait.QueueOf(rel.hold.Lock(), rel.hold.Mode()))
	}
	rel.outcomeUnknown, rel.perKeyCounts = args.Unknown, args.PerKeyCounts
	return code, err
}

// send sends the release and settles the hold with the answer: script.HoldEnded,
// script.CountsRemain or script.NoSuchHold.
func (rel *request) send(until time.Time) (code int64, err error) {
	if rel.number == 0 {
		if rel.Masters.NeedsRepair(rel.hold.Key(), &rel.hold.Watch) { // it may have an older state
			if _, err = rel.Restore(rel.hold, until); err != nil {
				return 0, err
			}
		}
		rel.renumber()
	}
	sent := time.Now()
	if rel.hold.Mode().Handover != nil && rel.freesLock() {
		o, ok := rel.Waiters.HandOver(rel.hold, rel.endArgs(), until)
		rel.outcomeUnknown = rel.outcomeUnknown || o.Unknown
		if ok && o.Answer != script.StaleRequest && (o.Answer != script.NoSuchHold || rel.Masters == nil) {
			if code, err = rel.repairAnswer(o.Answer, sent, until); err != nil || code != script.StaleRequest {
				return rel.conclude(code, until, err)
			}
		}
	}
	for {
		if code, err = rel.ask(until); err != nil {
			return 0, err
		}
		if code == script.NoSuchHold && rel.restore != renewal.Renewed {
			if rel.restore, err = rel.Restore(rel.hold, until); err != nil {
				return 0, err
			}
			// The master lacked it, and nobody else got the lock.
			if rel.restore == renewal.Renewed {
				rel.renumber()
				continue
			}
		}
		if code != script.StaleRequest {
			code, err = rel.repairAnswer(code, sent, until)
		}
		if err != nil || code != script.StaleRequest {
			return rel.conclude(code, until, err)
		}
		if time.Now().After(until) {
			return 0, transport.ErrRefused
		}
		// A later request came first: the second undo of an acquire. This request has done nothing,
		// and no copy of it will.
		rel.renumber()
	}
}

// freesLock reports whether the release frees the lock, as far as this Leash knows. Each permit is
// free for itself.
func (rel *request) freesLock() bool {
	h := rel.hold
	if !h.Mode().Shared || h.Mode() == script.Permit {
		return true
	}
	return rel.Holds.Find(h.Lock(), func(other *hold.Hold) bool { return other != h }) == nil
}

// conclude settles the hold. If it is missing while copies of a release of one count are on their
// way, a copy may have ended it. It counts as ended unless a tombstone says otherwise, if the
// answer can still tell the client. A client that was told to wait would rely on the other
// counts, so it is told of a loss.
func (rel *request) conclude(code int64, until time.Time, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	if code == script.NoSuchHold && rel.keepsCounts && rel.outcomeUnknown && !rel.answered {
		switch how, err := rel.Restorer.Tombstone(rel.hold, until); {
		case err != nil:
			return 0, err
		case how == renewal.Gone, how == renewal.Released:
			code = script.HoldEnded
		}
	}
	return rel.applyAnswer(code), nil
}

// applyAnswer applies the answer to the hold.
func (rel *request) applyAnswer(code int64) int64 {
	h := rel.hold
	if code == script.CountsRemain {
		if !rel.decremented {
			h.Decrement(rel.putBackID)
		}
		rel.resume()
		return code
	}
	if code == script.NoSuchHold && rel.outcomeUnknown && !rel.keepsCounts {
		code = script.HoldEnded // an earlier copy has ended it
	}
	if code == script.HoldEnded {
		rel.Releases.Add(1)
		h.Apply(hold.Ended)
	}
	return code
}

// resume gives the hold back to the watchdog, because counts remain. If it was evicted, or its
// connection ended, it is settled the way that requires.
func (rel *request) resume() { rel.hold.ResumeAfterRelease(rel.until) }

// resolveMissing settles a hold that is missing. If it is lost, lost is the reason. While nobody
// knows, the watchdog goes on to check it.
func (rel *request) resolveMissing() (lost string, err error) {
	h := rel.hold
	how, err := rel.Tombstone(h, rel.Redis.Deadline())
	switch {
	case h.OwnerInformed(), h.LeaseOverAt(rel.until):
		h.Apply(hold.Ended)
		return "", nil
	case rel.restore == renewal.Moved && (err != nil || !hold.EndedByOwner(how)):
		how = renewal.Moved
	case err != nil:
		rel.resume()
		rel.Holds.Watchdog.Check(&h.Watch)
		return "", err
	}
	return h.SettleMissing(how, rel.until), nil
}

// finish repeats a release until Redis answers or the hold must be over (R26). It unlocks the
// requests.
func (rel *request) finish() {
	h := rel.hold
	defer h.UnlockRequests()
	rel.answered = true
	for rel.shouldRetry() {
		code, err := rel.send(rel.Redis.Deadline())
		switch {
		case transport.IsSilence(err):
			if rel.Redis.StoppedWithin(100 * time.Millisecond) {
				h.Apply(hold.Ended)
				return
			}
			continue
		case err == nil && code == script.CountsRemain:
			return
		case err == nil && code == script.NoSuchHold && rel.keepsCounts && !h.OwnerInformed():
			rel.resolveMissing()
			return
		case err != nil && rel.keepsCounts: // the count stays
			rel.Redis.Log.Warn("redis refuses a release", "key", h.Key(), "err", err)
			rel.resume()
			return
		case err != nil:
			rel.Redis.Log.Warn("redis refuses a release", "key", h.Key(), "err", err)
		case code == script.NoSuchHold && !rel.outcomeUnknown:
			// Another carrier may have it, and the event was lost. Its watchers ask Redis.
			h.Apply(hold.Elsewhere)
		}
		break
	}
	h.LoseMissing()
}

// shouldRetry reports whether there is still a hold to release. While the watchdog renews the rest
// of it, its Until decides.
func (rel *request) shouldRetry() bool {
	h := rel.hold
	switch state := h.State(); {
	case state == hold.Decrementing:
		if until := h.SafeUntil(); !until.IsZero() {
			rel.until = until
		}
		return true
	case state == hold.Missing:
		return time.Now().Before(rel.until)
	case state == hold.Over && rel.keepsCounts:
		return false
	}
	return time.Now().Before(rel.until.Add(rel.Holds.TTL))
}

// lockAndFinish waits for the hold's request lock and releases the hold.
func (rel *request) lockAndFinish() {
	until := rel.Redis.Deadline()
	if until.Before(rel.until) {
		until = rel.until
	}
	// The request gets its number only now, above that of an undo that had the lock before.
	if rel.hold.LockRequests(until) {
		rel.finish()
	} else {
		rel.hold.Apply(hold.Ended)
	}
}
