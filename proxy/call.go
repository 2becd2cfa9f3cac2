package proxy

import (
	"leash/proxy/chunk"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// call is one command in flight and its reply. A session's calls form a list in the order of the
// commands. The reply of the oldest call is passed on as it arrives. Replies of later calls are
// kept until their call is the oldest.
//
// session.mu guards all fields but part.
type call struct {
	session *session
	next    *call // the next younger call, or the next free one
	part    part  // the command as sent; used if one node gets all of it
	fan     *fanout
	in      *batch // the batch that holds the request's bytes
	bytes   int    // of the request
	size    int    // of the reply so far
	begun   bool   // a piece of the reply has been passed on
	muted   bool   // the client does not want the reply
	reads   bool   // a read, which may be executed twice
	script  bool   // it runs a script
	done    bool
	buffer  replyBuffer

	// The fields below are for client-side caching.
	tracked []*tracked // connections on which this call was the last to get a reply
	after   []byte     // frames that arrived on them after its reply
}

// openCall adds a call whose reply the session's loop makes. It returns nil when the session ends.
func (s *session) openCall() *call {
	if !s.lockUnheld() {
		return nil
	}
	defer s.mu.Unlock()
	c := s.calls.take(s)
	s.calls.push(c)
	return c
}

// reply adds a piece to c's reply. It may be called from any goroutine. It returns the session if
// the caller must flush it.
func (c *call) reply(p []byte, done bool) upstream.Flusher {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.muted {
		p = nil
	}
	c.size += len(p)
	if c == s.calls.head {
		if !s.out.DroppedLocked() {
			s.replies.Append(p)
		}
		c.begun = !c.muted
	} else {
		c.buffer.append(p)
		s.calls.kept += len(p)
		s.calls.largest = max(s.calls.largest, c.size) // at once, not only when c is the oldest call
	}
	if done {
		c.doneLocked()
	}
	return s.toFlushLocked()
}

// replyWith is reply for a whole reply. It copies start and moves rest without a copy.
func (c *call) replyWith(start []byte, rest *chunk.List) upstream.Flusher {
	if rest.Len() == 0 {
		return c.reply(start, true)
	}
	flusher := c.reply(start, false)
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	size := rest.Len()
	switch {
	case c.muted, c == s.calls.head && s.out.DroppedLocked():
		rest.Clear()
	case c == s.calls.head:
		c.size += size
		s.replies.Splice(rest)
	default:
		c.size += size
		c.buffer.rest.Splice(rest)
		s.calls.kept += size
		s.calls.largest = max(s.calls.largest, c.size)
	}
	c.doneLocked()
	if flusher == nil {
		flusher = s.toFlushLocked()
	}
	return flusher
}

// doneLocked records that c has its whole reply.
func (c *call) doneLocked() {
	c.done = true
	if c == c.session.calls.head {
		c.session.retireLocked()
	}
}

// retireLocked removes finished calls from the head of the list. It passes on what has arrived of
// the next call's reply.
func (s *session) retireLocked() {
	for c := s.calls.head; c != nil && c.done; c = s.calls.head {
		s.calls.pop()
		if c.in != nil {
			c.in.refs--
			s.input.freeLocked(c.in)
		}
		for _, one := range c.tracked {
			if one.last == c {
				one.last = nil
			}
		}
		if len(c.after) > 0 && !s.out.DroppedLocked() {
			s.out.Append(c.after)
		}
		s.calls.recycle(c)
		if s.pushes.holds == 0 {
			s.out.Splice(&s.pushes.waiting)
		}
		if next := s.calls.head; next != nil && next.size > 0 {
			s.showLocked(next)
		}
	}
	if s.calls.n == 0 {
		s.restartSilence()
	}
	s.wakeLocked()
}

// showLocked moves what has arrived of the oldest call's reply to the output.
func (s *session) showLocked(c *call) {
	s.calls.kept -= c.size
	c.begun = true
	if s.out.DroppedLocked() {
		c.buffer.clear()
		return
	}
	c.buffer.moveTo(s.replies)
}

// fail ends c with an error that Leash makes. The message begins with its code. If the client
// already has a piece of the real reply, an error cannot follow it, so the session ends.
func (c *call) fail(message string) {
	s := c.session
	s.mu.Lock()
	begun := c.begun
	if !begun && c.size > 0 { // the kept piece of the reply is dropped; the client has none of it
		s.calls.kept -= c.size
		c.size = 0
		c.buffer.clear()
	}
	s.mu.Unlock()
	if begun {
		s.kill("reply cut off: "+message, false)
		c.finish(nil)
		return
	}
	c.finish(resp.AppendError(nil, message))
}

// drop ends c without a reply, or without the rest of one.
func (c *call) drop() {
	c.session.mu.Lock()
	c.muted = true
	c.session.mu.Unlock()
	c.finish(nil)
}

// addKept counts bytes of replies that are kept until a call is complete.
func (s *session) addKept(n int) {
	s.mu.Lock()
	s.calls.kept += n
	s.mu.Unlock()
}

// finish ends c with the rest of its reply and flushes.
func (c *call) finish(reply []byte) {
	if f := c.reply(reply, true); f != nil {
		f.Flush()
	}
}

// laterCallsLocked calls f for each call after c until f returns false. It returns false in that
// case.
func (c *call) laterCallsLocked(f func(*call) bool) bool {
	for y := c.next; y != nil; y = y.next {
		if !f(y) {
			return false
		}
	}
	return true
}
