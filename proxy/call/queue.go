package call

import (
	"sync"
	"time"

	"leash/proxy/chunk"
	"leash/proxy/client"
)

// Queue has the calls of a session that are in flight, the oldest first, and gives their replies to
// the client. Methods that wait are for the session's loop only. The others are safe for concurrent
// use.
type Queue struct {
	server  *Server
	session Session
	out     *client.Output

	ID int64 // of the session, for the log
	// Muted is set while the client does not get the replies to new calls. It belongs to the loop.
	Muted bool
	off   bool // Mute has set Muted, and Unmute has not been called since; belongs to the loop
	// Class is that of the running command, which the session counts. It belongs to the loop.
	Class uint8
	// Arrived is when the running command was read from the client, by links.Now. It belongs to
	// the loop.
	Arrived time.Duration

	// mu is the session's. It guards the fields below.
	mu        *sync.Mutex
	head      *Call // the oldest
	tail      *Call // the youngest
	free      *Call // calls to reuse
	n         int   // in flight
	bytes     int   // of the requests of calls in flight
	suspended int   // reasons why no call may be pushed now
	moved     bool  // one of them: calls have moved to another link
	faulty    bool  // the session has panicked, so a call may get no reply
	largest   int   // largest recent reply; decays by an eighth with each reply
	kept      int   // bytes of replies that wait for earlier replies
	lostAt    time.Time
	replies   *chunk.List // where replies go: the output, except during a capture
	pushes    pushQueue   // frames that answer no command

	wake    sync.Cond // the loop waits on it
	waiting bool      // the loop waits on wake
	wakeAt  int       // number of calls in flight at which the loop wakes up
}

// Init prepares the queue of a session, whose mutex is mu.
func (q *Queue) Init(server *Server, session Session, out *client.Output, mu *sync.Mutex) {
	q.server, q.session, q.out, q.mu = server, session, out, mu
	q.wake.L = mu
	q.replies = &out.List
	q.largest = firstReply
}

// takeLocked takes a call from the free list, or makes one.
func (q *Queue) takeLocked() *Call {
	c := q.free
	if c == nil {
		c = &Call{queue: q}
	} else {
		q.free = c.next
		c.next = nil
	}
	c.muted, c.class, c.began = q.Muted, q.Class, q.Arrived
	return c
}

// pushLocked makes c the youngest call. The bytes of its request do not change until it is done.
func (q *Queue) pushLocked(c *Call) {
	if q.tail == nil {
		q.head = c
	} else {
		q.tail.next = c
	}
	q.tail = c
	q.n++
	q.bytes += c.bytes
	if c.source != nil {
		c.source.RetainLocked()
	}
}

func (q *Queue) popLocked() {
	c := q.head
	q.head = c.next
	if q.head == nil {
		q.tail = nil
	}
	q.n--
	q.bytes -= c.bytes
	q.largest = max(c.size, q.largest-q.largest/8)
}

// recycleLocked puts a call that has been removed on the free list.
func (q *Queue) recycleLocked(c *Call) {
	small := c.buffer.small[:0]
	*c = Call{queue: q, next: q.free}
	c.buffer.small = small
	q.free = c
}

// retireLocked removes finished calls from the head of the queue. It passes on what has arrived of
// the next call's reply.
func (q *Queue) retireLocked() {
	for c := q.head; c != nil && c.done; c = q.head {
		q.popLocked()
		if c.source != nil {
			c.source.ReleaseLocked()
		}
		for _, one := range c.tracked {
			one.Forget(c)
		}
		if len(c.after) > 0 && !q.out.DroppedLocked() {
			q.out.Append(c.after)
		}
		q.recycleLocked(c)
		if q.pushes.delays == 0 {
			q.out.Splice(&q.pushes.waiting)
		}
		if next := q.head; next != nil && next.size > 0 {
			q.showLocked(next)
		}
	}
	if q.n == 0 {
		if q.moved {
			q.moved = false
			q.suspended--
		}
		q.session.IdleLocked()
	}
	q.wakeLocked()
}

// showLocked moves what has arrived of the oldest call's reply to the output.
func (q *Queue) showLocked(c *Call) {
	q.kept -= c.size
	c.begun = true
	if q.out.DroppedLocked() {
		c.buffer.clear()
		return
	}
	c.buffer.moveTo(q.replies)
}

// addKept counts bytes of replies that are kept until a call is complete.
func (q *Queue) addKept(n int) {
	q.mu.Lock()
	q.kept += n
	q.mu.Unlock()
}

// SendTo sets where the session's replies go from now on. Nil is the output.
func (q *Queue) SendTo(to *chunk.List) {
	if to == nil {
		to = &q.out.List
	}
	q.mu.Lock()
	q.replies = to
	q.mu.Unlock()
}

// Restore lets replies go to the output again, behind the replies that were captured.
func (q *Queue) Restore(captured *chunk.List) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.replies = &q.out.List
	if !q.out.DroppedLocked() {
		q.out.Splice(captured)
	}
}

// SendsElsewhere reports whether replies do not go to the output.
func (q *Queue) SendsElsewhere() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.replies != &q.out.List
}

// SizesLocked returns the bytes of the requests in flight, and the bytes of output that waits.
func (q *Queue) SizesLocked() (requests, output int) {
	return q.bytes, q.out.Len() + q.pushes.waiting.Len() + q.kept
}

// LenLocked returns the number of calls in flight.
func (q *Queue) LenLocked() int { return q.n }

// YoungestLocked returns the last call of the queue, or nil.
func (q *Queue) YoungestLocked() *Call { return q.tail }

// LastLoss returns when the session last lost a call that was written. Redis may still run it. Zero
// means never.
func (q *Queue) LastLoss() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lostAt
}

// Lost sets what LastLoss returns.
func (q *Queue) Lost(at time.Time) {
	q.mu.Lock()
	q.lostAt = at
	q.mu.Unlock()
}

// FailLocked records that the session has panicked. Nothing waits for its calls any more.
func (q *Queue) FailLocked() { q.faulty = true }
