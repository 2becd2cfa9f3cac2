package call

import (
	"time"

	"leash/proxy/chunk"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

// Call is one command in flight and its reply. The reply of the oldest call is passed on as it
// arrives. Replies of later calls are kept until their call is the oldest.
//
// The session's mutex guards all fields but part.
type Call struct {
	queue  *Queue
	next   *Call // the next younger call, or the next free one
	part   Part  // the command as sent; used if one node gets all of it
	fan    *fanout
	source Source        // has the request's bytes; may be nil
	bytes  int           // of the request
	size   int           // of the reply so far
	begun  bool          // a piece of the reply has been passed on
	muted  bool          // the client does not want the reply
	reads  bool          // a read, which may be executed twice
	script bool          // it runs a script
	class  uint8         // of its command, for Session.Failed
	began  time.Duration // Queue.Arrived; 0: how long it takes does not matter
	done   bool
	buffer buffer

	// The fields below are for client-side caching.
	tracked []Tracker
	after   []byte // frames that come after the reply
}

// Source has the bytes of requests. It must not change them while a call needs them.
type Source interface {
	RetainLocked()  // one call more needs it
	ReleaseLocked() // one call less needs it
}

// Tracker is told when a call has left the queue (TrackLocked).
type Tracker interface{ Forget(c *Call) }

// TrackLocked lets t know when c leaves the queue.
func (c *Call) TrackLocked(t Tracker) { c.tracked = append(c.tracked, t) }

// FollowLocked adds a frame that comes after c's reply.
func (c *Call) FollowLocked(frame []byte) { c.after = append(c.after, frame...) }

// Whole is a command that goes to one node as it is.
type Whole struct {
	Bytes  []byte // the whole command
	Source Source // has the bytes
	Prefix []byte // CLIENT CACHING, if it goes before the command
	Slot   slots.Slot
	Reads  bool // it only reads and may be executed twice
	Script bool // it runs a script
}

// Push makes a call of a command and adds it to the queue. The caller then sends the part. It waits
// while the session is suspended. It returns nil when the session ends.
func (q *Queue) Push(r *Whole) *Part {
	if !q.lockForPush() {
		return nil
	}
	defer q.mu.Unlock()
	c := q.takeLocked()
	c.bytes, c.source = len(r.Bytes), r.Source
	c.reads, c.script = r.Reads, r.Script
	p := &c.part
	p.slot, p.Request.Command = r.Slot, r.Bytes
	p.join(c, r.Prefix)
	q.pushLocked(c)
	return p
}

// Answer adds a reply of Leash behind the calls in flight, and counts an error. It returns false
// when the session ends.
func (q *Queue) Answer(reply []byte) bool {
	if len(reply) > 0 && reply[0] == '-' {
		q.session.Failed(q.Class)
	}
	if q.Muted {
		return true
	}
	if !q.Admit(len(reply)) {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == 0 {
		q.appendLocked(reply)
		return true
	}
	c := q.takeLocked()
	c.bytes = len(reply)
	q.pushLocked(c)
	c.buffer.append(reply)
	q.kept += len(reply)
	c.size = len(reply)
	c.done = true
	return true
}

// Append adds bytes to the replies while no call is in flight. It returns false when the socket
// cannot be used any more.
func (q *Queue) Append(reply []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.appendLocked(reply)
}

func (q *Queue) appendLocked(reply []byte) bool {
	if q.out.DroppedLocked() {
		return false
	}
	q.replies.Append(reply)
	return true
}

// Open adds a call whose reply the session's loop makes. It returns nil when the session ends.
func (q *Queue) Open() *Call {
	if !q.lockForPush() {
		return nil
	}
	defer q.mu.Unlock()
	c := q.takeLocked()
	q.pushLocked(c)
	return c
}

// Reply adds a piece to c's reply. It may be called from any goroutine. It returns the output if
// the caller must flush it.
func (c *Call) Reply(p []byte, done bool) links.Flusher { return c.add(p, nil, done) }

// add is Reply for a piece in two parts. It copies p and moves rest without a copy. rest may be
// nil.
func (c *Call) add(p []byte, rest *chunk.List, done bool) links.Flusher {
	q := c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.muted {
		p, rest = nil, nil
	}
	size := len(p) + rest.Len()
	c.size += size
	if c == q.head {
		if !q.out.DroppedLocked() {
			q.replies.Append(p)
			q.replies.Splice(rest)
		}
		c.begun = !c.muted
	} else {
		c.buffer.append(p)
		c.buffer.rest.Splice(rest)
		q.kept += size
		q.largest = max(q.largest, c.size) // at once, not only when c is the oldest call
	}
	if done {
		c.doneLocked()
	}
	return q.toFlushLocked()
}

func (c *Call) doneLocked() {
	c.done = true
	if c == c.queue.head {
		c.queue.retireLocked()
	}
}

// Fail ends c with an error that Leash makes. The message begins with its code. If the client
// already has a piece of the real reply, an error cannot follow it, so the session ends.
func (c *Call) Fail(message string) {
	q := c.queue
	q.session.Failed(c.class)
	q.mu.Lock()
	begun := c.begun
	if !begun && c.size > 0 { // the kept piece of the reply is dropped; the client has none of it
		q.kept -= c.size
		c.size = 0
		c.buffer.clear()
	}
	q.mu.Unlock()
	if begun {
		q.session.End("reply cut off: " + message)
		c.Finish(nil)
		return
	}
	c.Finish(resp.AppendError(nil, message))
}

// drop ends c without a reply, or without the rest of one.
func (c *Call) drop() {
	c.queue.mu.Lock()
	c.muted = true
	c.queue.mu.Unlock()
	c.Finish(nil)
}

// Finish ends c with the rest of its reply and flushes.
func (c *Call) Finish(reply []byte) { links.Flush(c.Reply(reply, true)) }
