package lockcmd

const msgUnblocked = "UNBLOCKED client unblocked via CLIENT UNBLOCK"

// stay is the wait of one command, which may be ended before its time.
type stay struct {
	over chan struct{} // closed when it is to end
	// Guarded by the carrier's mu.
	ended bool
	fails bool   // and its answer is an error
	end   func() // called besides, if not nil; it does not block
}

// Unblock ends the wait of the command under way, as Redis's CLIENT UNBLOCK does: it is answered as
// if its time were over or, if it is to fail, with an error. What is granted in that moment all the
// same is answered as what it is. It reports whether a command waits whose wait has not been ended
// yet. It does not block and may be called from any goroutine.
func (c *Carrier) Unblock(fail bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stay == nil || c.stay.ended {
		return false
	}
	c.stay.ended, c.stay.fails = true, fail
	close(c.stay.over)
	if c.stay.end != nil {
		c.stay.end()
	}
	return true
}

// onUnblock lets end be called when the wait, which has begun, is to end.
func (c *Carrier) onUnblock(end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stay.ended {
		end()
		return
	}
	c.stay.end = end
}

// enterStay and leaveStay are for the goroutine of Do.
func (c *Carrier) enterStay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stay = &stay{over: make(chan struct{})}
}

// leaveStay ends the stay if there is one, and reports whether the command is to fail.
func (c *Carrier) leaveStay() (fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fails = c.stay != nil && c.stay.fails
	c.stay = nil
	return fails
}

// unblocked is closed when the wait under way is to end; nil when none is. It is for the goroutine
// of Do, which alone replaces the stay.
func (c *Carrier) unblocked() <-chan struct{} {
	if c.stay == nil {
		return nil
	}
	return c.stay.over
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

// awaited is the result of a command's wait, which is over, as it is to be answered.
func (c *Carrier) awaited(r result) result {
	if c.leaveStay() && r.mayPass() {
		return result{kind: failed, text: msgUnblocked}
	}
	return r
}
