package release

import (
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
)

// Release releases h, which this Leash carries: one count of it, or all. The code is
// script.HoldEnded, script.CountsRemain or script.NoSuchHold. If h was found to be lost, lost is
// the reason. After a transport.ErrUnknown the release goes on in the background.
func (r *Releaser) Release(h *hold.Hold, all bool, until time.Time) (code int64, lost string, err error) {
	if !h.LockRequests(until) {
		if h.State().IsEnding() { // that request releases all of it, and goes on
			return 0, "", transport.ErrUnknown
		}
		return 0, "", transport.ErrRefused
	}
	rel := r.begin(h, all)
	if rel == nil {
		h.UnlockRequests()
		return script.NoSuchHold, "", nil
	}
	code, err = rel.send(until)
	if transport.IsSilence(err) {
		r.Tasks.Spawn(rel.finish) // finish unlocks the requests
		return 0, "", transport.ErrUnknown
	}
	defer h.UnlockRequests()
	switch {
	case err != nil:
		rel.resume()
		return 0, "", err
	case code != script.NoSuchHold:
		return code, "", nil
	}
	if lost, err = rel.resolveMissing(); err != nil {
		return 0, "", transport.ErrRefused
	}
	return script.NoSuchHold, lost, nil
}

// PutBack takes back one acquire of a hold, after the requests in progress about the hold. Its ID
// counts as unused afterwards: a repetition of the command counts again. PutBack repeats that until
// Redis answers, and blocks until then.
func (r *Releaser) PutBack(h *hold.Hold, id string) {
	for !h.LockRequests(r.Redis.Deadline()) {
		if h.State() == hold.Over || r.Redis.StoppedWithin(0) {
			return
		}
	}
	r.PutBackLocked(h, id)
}

// PutBackLocked is PutBack for a hold whose requests the caller has locked. It unlocks them.
func (r *Releaser) PutBackLocked(h *hold.Hold, id string) {
	rel := r.begin(h, false)
	if rel == nil {
		h.UnlockRequests() // it has ended by itself
		return
	}
	rel.putBackID = script.RecordID(id)
	rel.finish() // finish unlocks the requests
}

// EndAll releases holds that nobody relies on, and whose release has begun with these changes. Each
// is sent as soon as the requests of its hold are unlocked. EndAll does not block; done is closed
// when all have ended.
func (r *Releaser) EndAll(changes []hold.Change) (done <-chan struct{}) {
	ended := make(chan struct{})
	r.Tasks.Spawn(func() {
		defer close(ended)
		r.InParallelByNode(len(changes), func(i int) string { return changes[i].Hold.Key() }, func(i int) {
			rel := &request{Releaser: r, hold: changes[i].Hold, all: true, until: changes[i].Until}
			rel.lockAndFinish()
		})
	})
	return ended
}
