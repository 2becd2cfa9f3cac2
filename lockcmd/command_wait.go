package lockcmd

const msgUnblocked = "UNBLOCKED client unblocked via CLIENT UNBLOCK"

// commandWait is the wait of one command, which may be ended before its time.
type commandWait struct {
	done chan struct{} // closed when it is to end
	// Guarded by the carrier's mu.
	unblocked bool
	failed    bool   // and its answer is an error
	onEnd     func() // called besides, if not nil; it does not block
}

// Unblock ends the wait of the command under way, as Redis's CLIENT UNBLOCK does: it is answered as
// if its time were over or, if it is to fail, with an error. What is granted in that moment all the
// same is answered as what it is. It reports whether a command waits whose wait has not been ended
// yet. It does not block and may be called from any goroutine.
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

// onUnblock lets end be called when the wait, which has begun, is to end.
func (c *Carrier) onUnblock(end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commandWait.unblocked {
		end()
		return
	}
	c.commandWait.onEnd = end
}

// beginCommandWait and leaveStay are for the goroutine of Do.
func (c *Carrier) beginCommandWait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commandWait = &commandWait{done: make(chan struct{})}
}

// endCommandWait ends the stay if there is one, and reports whether the command is to fail.
func (c *Carrier) endCommandWait() (fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fails = c.commandWait != nil && c.commandWait.failed
	c.commandWait = nil
	return fails
}

// unblocked is closed when the wait under way is to end; nil when none is. It is for the goroutine
// of Do, which alone replaces the stay.
func (c *Carrier) unblocked() <-chan struct{} {
	if c.commandWait == nil {
		return nil
	}
	return c.commandWait.done
}

// isUnblocked is unblocked, looked at.
func (c *Carrier) isUnblocked() bool {
	select {
	case <-c.unblocked():
		return true
	default:
		return false
	}
}

// waitResult is the result of a command's wait, which is over, as it is to be answered.
func (c *Carrier) waitResult(r result) result {
	if c.endCommandWait() && r.mayChange() {
		return result{kind: failed, text: msgUnblocked}
	}
	return r
}
