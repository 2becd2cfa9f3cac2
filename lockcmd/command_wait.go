package lockcmd

import "time"

const msgUnblocked = "UNBLOCKED client unblocked via CLIENT UNBLOCK"

// commandWait is the wait of one command. CLIENT UNBLOCK may end it early.
type commandWait struct {
	done  chan struct{} // closed when the wait is to end
	began time.Time
	// Guarded by the carrier's mu.
	waiter    *waiter // the last one of the command; nil before it is in a queue
	unblocked bool
	failed    bool   // the answer is an error
	onEnd     func() // called too, if not nil; does not block
}

// Unblock ends the wait of the current command, like Redis's CLIENT UNBLOCK. The command is
// answered as if its time were over or, with fail, with an error. A grant at that moment is still
// answered as a grant. Unblock reports whether it ended a wait. It does not block and is safe for
// concurrent use.
func (c *Carrier) Unblock(fail bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commandWait == nil || c.commandWait.unblocked {
		return false
	}
	c.commandWait.unblocked, c.commandWait.failed = true, fail
	close(c.commandWait.done)
	if c.commandWait.onEnd != nil {
		c.commandWait.onEnd()
	}
	return true
}

// onUnblock sets a function that is called when the wait is to end.
func (c *Carrier) onUnblock(end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commandWait.unblocked {
		end()
		return
	}
	c.commandWait.onEnd = end
}

// noteWaiter notes where the current command waits.
func (c *Carrier) noteWaiter(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commandWait != nil {
		c.commandWait.waiter = w
	}
}

// Waiting shows what the current command waits for. ok is false if it does not wait for a lock, a
// permit, a counter or a latch. A LOCK.MACQUIRE shows the key that it waits for last, and with
// QUORUM none. It does not block and is safe for concurrent use.
func (c *Carrier) Waiting() (v WaiterView, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commandWait == nil || c.commandWait.waiter == nil {
		return v, false
	}
	v, _ = c.commandWait.waiter.view()
	v.Waited = time.Since(c.commandWait.began)
	return v, true
}

// beginCommandWait and endCommandWait are for the goroutine of Do.
func (c *Carrier) beginCommandWait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commandWait = &commandWait{done: make(chan struct{}), began: time.Now()}
}

// endCommandWait ends the wait, if there is one. It reports whether the command is to fail.
func (c *Carrier) endCommandWait() (fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.commandWait
	if w == nil {
		return false
	}
	c.commandWait = nil
	c.service.stats.waitTimes.Observe(time.Since(w.began))
	return w.failed
}

// unblocked is closed when the current wait is to end. It is nil when there is no wait. Only the
// goroutine of Do may call it, since only that replaces commandWait.
func (c *Carrier) unblocked() <-chan struct{} {
	if c.commandWait == nil {
		return nil
	}
	return c.commandWait.done
}

// isUnblocked reports whether the current wait is to end.
func (c *Carrier) isUnblocked() bool {
	select {
	case <-c.unblocked():
		return true
	default:
		return false
	}
}

// waitResult is the result to answer after a wait with result r.
func (c *Carrier) waitResult(r result) result {
	if c.endCommandWait() && r.mayChange() {
		return result{kind: failed, text: msgUnblocked}
	}
	return r
}
