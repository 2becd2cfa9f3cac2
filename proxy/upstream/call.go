package upstream

import (
	"errors"
	"time"

	"leash/internal/guard"
)

// Reasons for which a call gets no reply from Redis; see Sink.Lost.
var (
	// ErrDropped answers a call that its sink had dropped before it was written.
	ErrDropped = errors.New("upstream: dropped before it was sent")
	// ErrUnreachable answers calls to a node that could not be reached for
	// longer than the redirect time-out.
	ErrUnreachable = errors.New("upstream: node cannot be reached")
	// ErrRefused answers calls of a lane whose credential Redis refuses.
	ErrRefused = errors.New("upstream: credential refused")
	// ErrClosed answers calls on a link that was closed: its node left the
	// topology, or Leash stops.
	ErrClosed = errors.New("upstream: link closed")
)

// Call is one command for one node, and its sink. It belongs to the link from Submit until its sink
// has the end of the reply or Lost.
type Call struct {
	Request []byte // a whole command; not changed until the reply
	Asking  bool   // send ASKING right before it and swallow its +OK
	Sink    Sink

	Prefix []byte // a command to send right before it, whose reply is swallowed; nil: none

	// Replies is how many replies it has, when Request is several commands, one behind the other; 0
	// counts as one. Its sink gets them as if they were one.
	Replies int

	awaited int // replies to swallow before its own
	answers int // its own that have been read whole
}

// lost calls Lost on a sink, which may panic.
func (c *Call) lost(l *Link, written bool, cause error) {
	_ = guard.Do(l.node.up.log, "lost call", func() { c.Sink.Lost(written, cause) }, "node", l.node.Addr)
}

// Sink takes the results of a call. The link's goroutines call its methods, never two at once for
// one call. They must not block, because that delays all sessions of the link.
type Sink interface {
	// Reply hands over reply bytes exactly as Redis sent them, valid only
	// during the call. A reply may come in parts, the last with done set; an
	// error reply always comes whole. A non-nil Flusher is flushed once when
	// all that was read from Redis at a time has been handed out.
	Reply(part []byte, done bool) Flusher
	// Lost reports that no more of the reply will come. written reports whether Redis may have
	// received and run the command. A *guard.Panic as cause means that the sink itself panicked, in
	// Reply.
	Lost(written bool, cause error)
	// Dropped is asked before the command is written. It returns true if the command must not run
	// any more.
	Dropped() bool
	// Until is also asked before the command is written. It returns the time from which the command
	// must not be written any more, or nil. The time must not change.
	Until() *time.Time
	// Overdue reports that this time has come and the command is not written. After it, Dropped
	// returns true or Until returns another time.
	Overdue()
}

// Unlimited is embedded in sinks whose commands may be written at any time.
type Unlimited struct{}

// Until implements Sink.
func (Unlimited) Until() *time.Time { return nil }

// Overdue implements Sink.
func (Unlimited) Overdue() {}

// Flusher passes on what sinks have gathered; it must not block.
type Flusher interface{ Flush() }
