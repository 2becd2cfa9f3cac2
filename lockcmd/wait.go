package lockcmd

import (
	"context"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
)

const msgUnblocked = "UNBLOCKED client unblocked via CLIENT UNBLOCK"

// Outcome implements wait.Result.
func (r result) Outcome() wait.Outcome {
	o := wait.Outcome{State: wait.Failed, Left: r.left, Token: r.token, ForAll: r.forAll, Others: r.others}
	switch r.kind {
	case taken:
		o.State = wait.Taken
	case busy:
		o.State = wait.Busy
	case granted, moved:
		o.State = wait.Got
	}
	return o
}

// wait queues a waiter until it gets what it waits for, its BLOCK is over, or its client is gone.
// seen is the result of its last attempt.
func (c *Carrier) wait(ctx context.Context, wt wait.Wait[result], seen result) (r result) {
	if !c.beginWait() {
		return result{kind: failed, text: msgLimit}
	}
	defer func() { r = c.endedWait(r) }()
	return c.await(ctx, wt, seen)
}

// await is wait for a command that is counted as waiting already.
func (c *Carrier) await(ctx context.Context, wt wait.Wait[result], seen result) result {
	wt.Command = &c.waiting
	if wt.Queue.Channel != "" { // QUORUM waits for a set of keys
		v, _ := viewRequest(wt.Queue.Lock, wt.Request)
		c.waitsFor.Store(&v)
	}
	r, end := c.service.waits.Wait(ctx, wt, seen)
	switch end.Reason {
	case wait.Gone:
		r = result{kind: failed, text: msgGone}
	case wait.Drained:
		r = result{kind: failed, text: msgDraining}
	}
	r.copyPending = end.CopyPending
	return r
}

// attemptOrWait attempts once, from that position, and then waits if the command waits. Without
// first, a command that waits goes behind present waiters and attempts only when there are none
// (R18).
func (c *Carrier) attemptOrWait(ctx context.Context, wt wait.Wait[result], at wait.Position,
	waits, first bool) result {
	s, r := c.service, result{kind: taken}
	if first || !waits || !s.waits.Waiting(wt.Queue) {
		wt.LastMessage = s.events.LastMessage(wt.Queue.Channel)
		r = wt.Request.Attempt(s.waits.Deadline(wt.End), at)
	}
	if !waits || !r.mayChange() {
		return r
	}
	return c.wait(ctx, wt, r)
}

// endOf is the end of a BLOCK that begins now; zero without a limit.
func endOf(block time.Duration) time.Time {
	if block == 0 {
		return time.Time{}
	}
	return time.Now().Add(block)
}

// beginWait counts a command as waiting and tells the host. It fails when too many commands wait.
// Otherwise endWait must follow.
func (c *Carrier) beginWait() bool {
	if !c.service.waits.Begin(&c.waiting) {
		return false
	}
	c.GuardWait()
	return true
}

// endWait ends the wait of the command, if it waits. It reports whether the command is to fail.
func (c *Carrier) endWait() (fails bool) {
	ended, fails := c.service.waits.End(&c.waiting)
	if ended {
		c.waitsFor.Store(nil)
		c.Guard(-1)
	}
	return fails
}

// endedWait ends the wait. It returns the result to answer after a wait with result r.
func (c *Carrier) endedWait(r result) result {
	if c.endWait() && r.mayChange() {
		return result{kind: failed, text: msgUnblocked}
	}
	return r
}

// Unblock ends the wait of the current command, like Redis's CLIENT UNBLOCK. The command is
// answered as if its time were over or, with fail, with an error. A grant at that moment is still
// answered as a grant. Unblock reports whether it ended a wait. It does not block and is safe for
// concurrent use.
func (c *Carrier) Unblock(fail bool) bool { return c.waiting.Unblock(fail) }

// Waited is for how long the last command has waited: for a lock, a permit, a counter, a latch or a
// loss. Safe for concurrent use.
func (c *Carrier) Waited() time.Duration { return c.waiting.Waited() }

// holders tells holders of a lock that somebody waits for it. It implements wait.Holders.
type holders struct{ *Service }

// TellHere implements wait.Holders.
func (s holders) TellHere(lock script.Lock) {
	if !s.holds.Notifying() {
		return
	}
	for _, h := range s.holds.OfLock(lock) {
		h.ReportWanted()
	}
}

// TellOthers implements wait.Holders.
func (s holders) TellOthers(lock script.Lock, after int64) (held bool) {
	until := time.Now().Add(time.Second)
	info, err := s.redis.Inspect(lock, until)
	if err != nil {
		return true
	}
	for _, f := range info.Holds {
		if f.Record.Token > after && script.CarrierLeash(f.Record.Carrier) != s.holds.Leash {
			event.Send(s.redis, event.Wanted, f.Ref(lock), until)
		}
	}
	return len(info.Holds)+len(info.Others) > 0
}
