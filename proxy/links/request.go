package links

import (
	"bytes"
	"errors"
	"time"

	"leash/internal/guard"
)

// Reasons why a request gets no reply from Redis. See Sink.Lost.
var (
	// ErrDropped is for a request whose Permit did not let it be written.
	ErrDropped = errors.New("upstream: dropped before it was sent")
	// ErrUnreachable is for requests to a node that could not be reached for the redirect time-out.
	ErrUnreachable = errors.New("upstream: node cannot be reached")
	// ErrClosed is for requests on a closed link. Its node left the topology, or Leash stops.
	ErrClosed = errors.New("upstream: link closed")
)

// Request is one command for one node, and its sink. It belongs to the link from Submit until its
// sink has the end of the reply or Lost.
type Request struct {
	Command []byte // a whole command; not changed until the reply
	Asking  bool   // send ASKING right before it and discard its +OK
	Sink    Sink
	Permit  Permit // asked before the command is written; nil: it may be written at any time

	Prefix []byte // a command to send right before it, whose reply is discarded; nil: none

	// Replies is the number of replies, if Command has several commands. 0 counts as one. The sink
	// gets the replies as if they were one.
	Replies int

	// End begins the error that is the last reply. The request then ends even if Redis has left out
	// a reply before it. Empty: the number of replies counts alone.
	End string

	// Written is when the command was last about to be written, and Answered when the last bytes of
	// its reply were read, by Now. The sink may read them at the end of the reply.
	Written, Answered time.Duration

	awaited int // replies to discard before its own
	answers int // own replies that have been read completely
}

var started = time.Now()

// Now returns the time since the start of the process by the monotonic clock. It takes half as long
// as time.Now. The slow log reads it once for all that is read or written together.
func Now() time.Duration { return time.Since(started) }

// At returns the time at which Now returned that.
func At(now time.Duration) time.Time { return started.Add(now) }

// lost calls Lost on a sink, which may panic.
func (c *Request) lost(l *Link, written bool, cause error) {
	_ = guard.Do(l.node.nodes.log, "lost call", func() { c.Sink.Lost(written, cause) }, "node", l.node.Addr)
}

// Sink takes the results of a request. The link's goroutines call its methods, never two at once
// for one request. They must not block, because that delays all sessions of the link.
type Sink interface {
	// Reply hands over reply bytes exactly as Redis sent them. They are valid only during the call.
	// A reply may come in parts, and the last has done set. An error reply always comes in one
	// part. A non-nil Flusher is flushed once, after all bytes of the same read from Redis have
	// been handed over.
	Reply(part []byte, done bool) Flusher
	// Lost reports that no more of the reply will come. written reports whether Redis may have
	// received and run the command. A *guard.Panic as cause means that the sink itself panicked, in
	// Reply.
	Lost(written bool, cause error)
}

// Permit decides whether a request may still be written. Take and Until are called with the link's
// mutex held.
type Permit interface {
	// Take is called when the link is about to write the command. If it returns false, the command
	// is dropped. If it returns true, Redis may have the command from then on. It may be called
	// again for the same command.
	Take() bool
	// Until returns the time from which the command must not be written any more, or nil. The time
	// must not change. It is called after Take.
	Until() *time.Time
	// Overdue reports that this time has come and the command is not written. After it, Take
	// returns false or Until returns another time.
	Overdue()
}

// answered notes a whole reply. It reports whether the request has ended.
func (c *Request) answered(reply []byte) bool {
	c.answers++
	return c.answers >= c.Replies || c.End != "" && bytes.HasPrefix(reply, []byte(c.End))
}

func (c *Request) taken() bool { return c.Permit == nil || c.Permit.Take() }

// until is the time from which the command must not be written any more, or nil.
func (c *Request) until() *time.Time {
	if c.Permit == nil {
		return nil
	}
	return c.Permit.Until()
}

// Discard is the sink of commands whose replies nobody needs.
type Discard struct{}

// Reply implements Sink.
func (Discard) Reply([]byte, bool) Flusher { return nil }

// Lost implements Sink.
func (Discard) Lost(bool, error) {}

// Flusher passes on what sinks have collected. It must not block.
type Flusher interface{ Flush() }

// Flush flushes f, unless it is nil.
func Flush(f Flusher) {
	if f != nil {
		f.Flush()
	}
}
