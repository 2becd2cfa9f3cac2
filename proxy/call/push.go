package call

import (
	"leash/proxy/chunk"
	"leash/proxy/links"
)

// Deliver gives the client a frame that is not a reply to a command. It is a message of a channel
// or an invalidation. It comes after earlier output and never within a reply. It does not block and
// may be called from any goroutine. It returns the output if the caller must flush it.
func (q *Queue) Deliver(frame []byte) links.Flusher {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.DeliverBehindLocked(nil, frame)
}

// DeliverBehindLocked is Deliver for a frame that must come after the reply to c. The client does
// not have that reply yet. A nil c means that there is no such reply.
func (q *Queue) DeliverBehindLocked(c *Call, frame []byte) links.Flusher {
	switch {
	case q.out.DroppedLocked():
		return nil
	case c != nil:
		c.FollowLocked(frame)
		return nil
	}
	q.pushListLocked().Append(frame)
	return q.toFlushLocked()
}

// toFlushLocked returns the output if it has output that no goroutine is about to flush. The
// caller must then flush it.
func (q *Queue) toFlushLocked() links.Flusher {
	if !q.out.ScheduleLocked() {
		return nil
	}
	return q.out
}

// pushListLocked returns the list for a frame that answers no command.
func (q *Queue) pushListLocked() *chunk.List {
	if q.pushes.delays > 0 || q.head != nil && q.head.begun {
		return &q.pushes.waiting
	}
	return &q.out.List
}

// MessageLocked is Deliver for a message, which counts as unread until the client has taken it. In
// RESP3 it becomes a push.
func (q *Queue) MessageLocked(frame []byte, resp3 bool) links.Flusher {
	q.pushes.unread += len(frame)
	into := q.pushListLocked()
	if resp3 {
		into.Append([]byte{'>'})
		frame = frame[1:]
	}
	into.Append(frame)
	return q.toFlushLocked()
}

// UnreadLocked returns an upper bound for the bytes of messages that wait for the client.
func (q *Queue) UnreadLocked() int {
	waits := q.out.Len() + q.pushes.waiting.Len()
	if waits == 0 {
		q.pushes.unread = 0
	}
	return min(q.pushes.unread, waits)
}

// pushQueue has frames that answer no command: messages, invalidations and notices of locks.
type pushQueue struct {
	waiting chunk.List // for after the current reply
	delays  int        // calls of DelayPushes minus those of AllowPushes; above 0, frames wait
	unread  int        // bytes of messages since the output was last empty
}

// DelayPushes delays deliveries until AllowPushes has been called as often. The caller is about to
// send something that must come before them.
func (q *Queue) DelayPushes() {
	q.mu.Lock()
	q.pushes.delays++
	q.mu.Unlock()
}

// AllowPushes delivers the frames that DelayPushes has delayed.
func (q *Queue) AllowPushes() {
	q.mu.Lock()
	q.pushes.delays--
	if q.pushes.delays == 0 && (q.head == nil || !q.head.begun) {
		q.out.Splice(&q.pushes.waiting)
	}
	q.mu.Unlock()
	q.out.Flush()
}
