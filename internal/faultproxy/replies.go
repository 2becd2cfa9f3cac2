package faultproxy

import "bytes"

// expected is what is known of the reply to a command that was, or is to be, forwarded.
type expected struct {
	// not nil: strikes when this one's turn has come (dropBefore) or when it is whole
	fault     *Fault
	confirmed bool // the command is answered with confirmations, one a channel
	raw       bool // from here on replies are not told apart
}

// replies is the direction from the target to the client. Its mutex is the connection's: the other
// direction announces commands.
type replies struct {
	scan       replyScanner
	pending    []expected // oldest first
	subscribed bool       // messages may come at any time
	raw        bool       // the connection is not followed any more
	over       bool       // a drop has struck: nothing more is delivered
	out        []byte     // to be delivered, not pushed yet
	held       []byte     // of the frame that withhold is about
	spoil      bool       // the frame is to be corrupted
	spoiled    []byte     // of that frame
	mute       bool       // a frame was cut short: nothing more is delivered
	// the frame may be one that a fault waits for: it is not delivered before it is whole
	withhold bool
}

// expect announces the next command.
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
		c.turnLocked()
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
			c.spoil = !c.withhold && !c.exempt.Load() && c.proxy.corruptsNext()
		}
		n, whole, err := c.scan.next(b)
		if err != nil {
			c.raw = true
			c.deliverHeldLocked()
			continue
		}
		switch {
		case c.mute:
		case c.spoil:
			c.spoiled = append(c.spoiled, b[:n]...)
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

// frameLocked takes the end of a frame: it goes to the client, or the fault that waited for it
// strikes.
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
		c.strikeLocked(want.fault)
	}
	c.raw = want.raw
	c.deliverHeldLocked()
	c.turnLocked()
}

// turnLocked looks at the oldest expectation when it becomes that: some come true without a reply.
func (c *conn) turnLocked() {
	if c.over || len(c.pending) == 0 {
		return
	}
	switch want := c.pending[0]; {
	case want.fault != nil && want.fault.kind == dropBefore:
		c.strikeLocked(want.fault)
	case want.raw && want.fault == nil:
		c.raw = true
	}
}

// strikeLocked lets the fault of the oldest command strike, once all before it is delivered.
func (c *conn) strikeLocked(f *Fault) {
	c.pushLocked()
	f.strike()
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

// pushLocked sends what is to be delivered on its way.
func (c *conn) pushLocked() {
	if len(c.out) > 0 {
		c.down.push(c.segment(bytes.Clone(c.out), goOn))
		c.out = c.out[:0]
	}
}
