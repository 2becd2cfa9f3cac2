package release

import (
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/lockcmd/hold"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/wait"
)

// Releaser ends the holds of one Leash, and those of other Leashes for its clients. Set the fields
// before the first call. It is safe for concurrent use.
type Releaser struct {
	*restore.Restorer
	Waiters Waiters
	Tasks   wait.Tasks // releases that go on after their command
	// how long the Leash of a broken hold has to end it, see the constant BreakTimeout
	BreakTimeout time.Duration

	Releases atomic.Int64 // holds ended by their owners or by a disconnect
}

// Waiters are the waiters of this Leash. Their methods are safe for concurrent use.
type Waiters interface {
	// Entry is the entry of the waiters in a mode in the list of turns. It does not block.
	Entry(m *script.Mode) string
	// Waiting reports whether a queue has waiters. It does not block.
	Waiting(id wait.QueueID) bool
	// HandOver ends h and grants its lock to a waiter in one script. It blocks until Redis answers,
	// at most until that time. ok is false if nobody can take the lock, or without an answer. Then
	// a release with the same number must follow, which acts only if this script has not.
	HandOver(h *hold.Hold, end script.EndArgs, until time.Time) (o Handover, ok bool)
}

// Handover is what a hand-over did.
type Handover struct {
	Answer  int64 // as of a release
	Unknown bool  // a copy may still be on its way, also if there is no answer
}

// Release releases h, which this Leash carries: one count of it, or all. The code is
// script.HoldEnded, script.CountsRemain or script.NoSuchHold. If h was found to be lost, lost is
// the reason. After a transport.ErrUnknown the release goes on in the background.
func (r *Releaser) Release(h *hold.Hold, all bool, until time.Time) (code int64, lost string, err error) {
	if !h.LockRequests(until) {
		return 0, "", r.releaseLater(h, all)
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

// releaseLater releases h after the request in progress about it is answered, if h is still held
// then. It returns the error for the caller.
func (r *Releaser) releaseLater(h *hold.Hold, all bool) error {
	switch reserved, inProgress := h.ReserveRelease(); {
	case inProgress:
		return transport.ErrUnknown
	case !reserved:
		return transport.ErrRefused
	}
	r.Tasks.Spawn(func() {
		defer h.ClearRelease()
		r.releaseInTurn(h, all, "")
	})
	return transport.ErrUnknown
}

// PutBack takes back one acquire of a hold, after the requests in progress about the hold. Its ID
// counts as unused afterwards: a repetition of the command counts again. PutBack repeats that until
// Redis answers, and blocks until then.
func (r *Releaser) PutBack(h *hold.Hold, id string) { r.releaseInTurn(h, false, script.RecordID(id)) }

// releaseInTurn releases h after the requests in progress about it, and repeats that until Redis
// answers. putBackID is that of the request.
func (r *Releaser) releaseInTurn(h *hold.Hold, all bool, putBackID string) {
	for !h.LockRequests(r.Redis.Deadline()) {
		if h.State() == hold.Over || r.Redis.StoppedWithin(0) {
			return
		}
	}
	r.releaseLocked(h, all, putBackID)
}

// PutBackLocked is PutBack for a hold whose requests the caller has locked. It unlocks them.
func (r *Releaser) PutBackLocked(h *hold.Hold, id string) {
	r.releaseLocked(h, false, script.RecordID(id))
}

func (r *Releaser) releaseLocked(h *hold.Hold, all bool, putBackID string) {
	rel := r.begin(h, all)
	if rel == nil {
		h.UnlockRequests() // it has ended by itself
		return
	}
	rel.putBackID = putBackID
	rel.finish() // finish unlocks the requests
}

// EndAll releases holds that nobody relies on, and whose release has begun with these changes. Each
// is sent as soon as the requests of its hold are unlocked. EndAll does not block; done is closed
// when all have ended.
func (r *Releaser) EndAll(changes []hold.Change) (done <-chan struct{}) {
	ended := make(chan struct{})
	r.Tasks.Spawn(func() {
		defer close(ended)
		r.InParallel(len(changes), func(i int) {
			rel := &request{Releaser: r, hold: changes[i].Hold, all: true, until: changes[i].Until}
			rel.lockAndFinish()
		})
	})
	return ended
}

// endWorkers is how many holds of one connection or one command are ended at the same time.
const endWorkers = 16

// InParallel calls end with every number below n, on up to 16 goroutines, and waits for them. A
// panic of a call is logged and ends that call only.
func (r *Releaser) InParallel(n int, end func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(endWorkers, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				_ = guard.Do(r.Redis.Log, "end of a hold", func() { end(i) })
			}
		})
	}
	workers.Wait()
}
