package acquire

import (
	"context"
	"sync/atomic"
	"time"

	"leash/lockcmd/hold"
	"leash/lockcmd/refusal"
	"leash/lockcmd/wait"
)

// Carrier is a connection that asks for holds. Set Acquirer and call Init first. It runs one
// command at a time.
type Carrier struct {
	hold.Carrier
	wait.Command // the current command, if it waits
	Acquirer     *Acquirer

	waitsFor     atomic.Pointer[wait.Wait[Result]] // what it waits for; nil for nothing in a queue
	pendingMoves pendingMoves                      // holds that may be moving here
}

// WaitsFor is what the current command waits for, nil if it waits for nothing in a queue. With
// QUORUM it waits for a set of keys, which is no queue. It does not block and is safe for
// concurrent use.
func (c *Carrier) WaitsFor() *wait.Wait[Result] { return c.waitsFor.Load() }

// BeginWait counts a command as waiting and tells the host. It fails when too many commands wait.
// Otherwise EndWait must follow.
func (c *Carrier) BeginWait() bool {
	if !c.Acquirer.Waits.Begin(&c.Command) {
		return false
	}
	c.GuardWait()
	return true
}

// EndWait ends the wait of the command, if it waits. It reports whether the command is to fail.
func (c *Carrier) EndWait() (fails bool) {
	ended, fails := c.Acquirer.Waits.End(&c.Command)
	if ended {
		c.waitsFor.Store(nil)
		c.Guard(-1)
	}
	return fails
}

// endedWait ends the wait. It returns the result to answer after a wait with result r.
func (c *Carrier) endedWait(r Result) Result {
	if c.EndWait() && r.mayChange() {
		return failed(refusal.Unblocked)
	}
	return r
}

// AttemptOrWait attempts once, from that position, and then waits if the command waits. Without
// first, a command that waits goes behind present waiters and attempts only when there are none
// (R18). It blocks until the result is known, BLOCK is over, or ctx ends.
func (c *Carrier) AttemptOrWait(ctx context.Context, wt wait.Wait[Result], at wait.Position,
	waits, first bool) (r Result) {
	w := c.Acquirer.Waits
	if first || !waits || !w.Waiting(wt.Queue) {
		wt.LastMessage = w.Channels.LastMessage(wt.Queue.Channel)
		r = wt.Request.Attempt(w.Deadline(wt.End), at)
	}
	switch {
	case !waits || !r.mayChange():
		return r
	case !c.BeginWait():
		return failed(refusal.TooMany)
	}
	defer func() { r = c.endedWait(r) }()
	return c.await(ctx, wt, r)
}

// await queues a waiter until it gets what it waits for, its BLOCK is over, or its client is gone.
// The command is counted as waiting already. seen is the result of its last attempt.
func (c *Carrier) await(ctx context.Context, wt wait.Wait[Result], seen Result) Result {
	wt.Command = &c.Command
	if wt.Queue.Channel != "" { // QUORUM waits for a set of keys
		c.waitsFor.Store(&wt)
	}
	r, end := c.Acquirer.Waits.Wait(ctx, wt, seen)
	switch end.Reason {
	case wait.Gone:
		r = failed(refusal.Gone)
	case wait.Drained:
		r = failed(refusal.Draining)
	}
	r.copyPending = end.CopyPending
	return r
}

// attachHold makes h a hold of the carrier, unless its client is gone. An acquire with that ID has
// granted h or counted once more, and h is safe until then. counts is false for a repetition of the
// last acquire.
func (c *Carrier) attachHold(ctx context.Context, h *hold.Hold, id string, counts bool, until time.Time) bool {
	if h.IsFresh() {
		return c.attachHolds(ctx, []*hold.Hold{h}, id, []time.Time{until})
	}
	return c.Reacquire(ctx, h, id, counts, until)
}

// attachHolds makes holds that were just granted the carrier's, unless its client is gone: all or
// none (R19). until says when each is safe.
func (c *Carrier) attachHolds(ctx context.Context, holds []*hold.Hold, id string, until []time.Time) bool {
	if !c.Attach(ctx, holds, id, until) {
		return false
	}
	for _, h := range holds {
		c.Acquirer.Granted(h, c.Waited())
	}
	return true
}
