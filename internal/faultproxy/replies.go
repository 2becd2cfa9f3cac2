package faultproxy

import "bytes"

// expected is what is known of the reply to a command before the reply comes.
type expected struct {
	// if not nil: triggered when this reply is the oldest (dropBefore) or when it is complete
	fault     *Fault
	confirmed bool // the reply is confirmations, one for each channel
	raw       bool // replies are not parsed from here on
}

// replies is the direction from the target to the client. Its mutex is the connection's: the other
// direction announces commands.
type replies struct {
	scan       replyScanner
	pending    []expected // oldest first
	subscribed bool       // messages may come at any time
	raw        bool       // the connection is not parsed any more
	over       bool       // a drop was triggered: nothing more is delivered
	out        []byte     // to be delivered, not pushed yet
	held       []byte     // of the frame that withhold is about
	corrupting bool       // the frame is to be replaced by a corrupt one
	original   []byte     // that frame as it came
	truncated  bool       // a frame was cut short: nothing more is delivered
	// the frame may be one that a fault waits for: it is not delivered before it is whole
	withhold bool
}

// expect adds the reply that the next command will have.
func (c *conn) expect(want expected) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if want.confirmed {
		c.subscribed = true
		if want.fault == nil {
			return // the number of confirmations is not known, so none is waited for
		}
	}
	c.pending = append(c.pending, want)
	if len(c.pending) == 1 {
		c.checkOldestLocked()
	}
}

// takeReplies delivers what came from the target, which is b.
func (c *conn) takeReplies(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(b) > 0 && !c.over {
		if c.raw {
			c.out = append(c.out, b...)
			break
		}
		if c.scan.left == 0 {
			c.withhold = len(c.pending) > 0 && c.pending[0].fault != nil
			c.corrupting = !c.withhold && !c.exempt.Load() && c.proxy.corruptsNext()
		}
		n, whole, err := c.scan.next(b)
		if err != nil {
			c.raw = true
			c.deliverHeldLocked()
			continue
		}
		switch {
		case c.truncated:
		case c.corrupting:
			c.original = append(c.original, b[:n]...)
			if whole {
				c.corruptLocked()
			}
		case c.withhold:
			c.held = append(c.held, b[:n]...)
		default:
			c.out = append(c.out, b[:n]...)
		}
		b = b[n:]
		if whole {
			c.frameLocked()
		}
	}
	c.pushLocked()
}

// frameLocked handles the end of a frame. It delivers the frame to the client, or triggers the
// fault that waited for it.
func (c *conn) frameLocked() {
	kind := c.scan.frame(c.subscribed)
	if kind == confirmation && c.withhold && c.pending[0].confirmed {
		kind = answer
	}
	if kind != answer || len(c.pending) == 0 {
		c.deliverHeldLocked()
		return
	}
	c.proxy.stats.replies.Add(1)
	want := c.pending[0]
	c.pending = c.pending[1:]
	if want.fault != nil {
		c.triggerLocked(want.fault)
	}
	c.raw = want.raw
	c.deliverHeldLocked()
	c.checkOldestLocked()
}

// checkOldestLocked handles a new oldest expectation. Some are fulfilled without a reply.
func (c *conn) checkOldestLocked() {
	if c.over || len(c.pending) == 0 {
		return
	}
	switch want := c.pending[0]; {
	case want.fault != nil && want.fault.kind == dropBefore:
		c.triggerLocked(want.fault)
	case want.raw && want.fault == nil:
		c.raw = true
	}
}

// triggerLocked triggers the fault of the oldest command, after everything before it is delivered.
func (c *conn) triggerLocked(f *Fault) {
	c.pushLocked()
	f.trigger()
	switch f.kind {
	case holdAfter:
		c.down.push(segment{gate: f.released})
		return
	case replaceReply:
		c.held = []byte(f.reply)
		return
	}
	c.over, c.held = true, nil
	end := dropFIN
	if f.ending == RST {
		end = dropRST
	}
	c.down.push(c.segment(nil, end))
}

func (c *conn) deliverHeldLocked() {
	if len(c.held) > 0 {
		c.pushLocked()
		c.down.push(c.segment(c.held, goOn))
		c.held = nil
	}
}

// pushLocked queues what is to be delivered.
func (c *conn) pushLocked() {
	if len(c.out) > 0 {
		c.down.push(c.segment(bytes.Clone(c.out), goOn))
		c.out = c.out[:0]
	}
}
