// Package ending is how a session ends: which side has ended it, and why. Rule R28 decides by that
// whether the client's locks are released or expire.
package ending

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"

	"leash/lockcmd"
)

// PeerTimeout is the reason for the end of a session whose host has vanished.
const PeerTimeout = "peer timeout"

// ErrLeaving ends the loop of a session that must not read any more.
var ErrLeaving = errors.New("proxy: server is stopping")

// Cause is why a session's loop has ended.
type Cause uint8

// Causes. A session ends as Broken if nobody has set another one.
const (
	Broken  Cause = iota // reset, time-out, or an unknown cause
	FIN                  // the client closed
	Quit                 // QUIT
	Refused              // protocol error, or a limit
	Killed               // by Leash
)

// String names the cause in logs.
func (c Cause) String() string {
	return [...]string{"connection broken", "client closed", "quit", "protocol error", "killed"}[c]
}

// Output is what the end of a session needs of its output.
type Output interface {
	DropLocked()         // no more output is kept
	DroppedLocked() bool // DropLocked has been called
	FailedLocked() error // why a write failed, or nil
}

// Ending is the end of one session. The zero value of a session that lives needs Init.
type Ending struct {
	cause    Cause // of the loop's end; used by the loop only
	wasReset bool  // a read failed, and the client had not closed; used by the loop only

	leaving atomic.Bool
	dropped atomic.Bool

	mu     *sync.Mutex // the session's; guards the fields below
	out    Output
	over   bool // the loop has ended
	cut    bool // the session was ended from outside
	reason string
}

// Init prepares the ending of a session. mu is the session's, and guards the output.
func (e *Ending) Init(mu *sync.Mutex, out Output) { e.mu, e.out = mu, out }

// Set sets the cause. Only the session's loop calls it.
func (e *Ending) Set(c Cause) { e.cause = c }

// Refuse notes that Leash refuses the client for a reason. Only the session's loop calls it.
func (e *Ending) Refuse(reason string) {
	e.mu.Lock()
	if e.reason == "" {
		e.reason = reason
	}
	e.mu.Unlock()
	e.cause = Refused
}

// By sets the cause from the error by which the client's side of the connection ended. It returns
// the cause. Only the session's loop calls it.
func (e *Ending) By(err error) Cause {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch closed := errors.Is(err, io.EOF); {
	case e.reason == PeerTimeout: // the kernel would have reported it later
		e.cause, e.wasReset = Broken, true
	case e.cut, e.leaving.Load():
		e.cause = Killed
	case closed && !e.out.DroppedLocked():
		e.cause = FIN
	default:
		e.cause, e.wasReset = Broken, !closed
	}
	return e.cause
}

// Finish looks at the writes of a session whose calls have all ended. A failed write can tell that
// the client has closed. Only the session's loop calls it.
func (e *Ending) Finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause == Broken && !e.wasReset && errors.Is(e.out.FailedLocked(), syscall.EPIPE) {
		e.cause = FIN // after a FIN, the kernel reports EPIPE instead of ECONNRESET
	}
}

// Locks returns what becomes of the client's locks. setting is Config.OnDisconnect of package
// proxy. balanced means that a balancer relays the connection: it closes the connection also when
// its client has vanished. Only the session's loop calls it.
func (e *Ending) Locks(setting string, balanced bool) lockcmd.Ending {
	switch {
	case e.cause == Quit,
		setting == "release" && (e.cause == FIN || e.cause == Broken),
		setting != "expire" && e.cause == FIN && !balanced:
		return lockcmd.Release
	}
	return lockcmd.Expire
}

// Leave records that the loop must not read any more. Safe for concurrent use.
func (e *Ending) Leave() { e.leaving.Store(true) }

// Leaving reports whether Leave has been called. Safe for concurrent use.
func (e *Ending) Leaving() bool { return e.leaving.Load() }

// Cut records that the session is ended from outside, for a reason. The first reason stays. Its
// output is dropped. If drop is set, so are calls that are not written to Redis. Safe for
// concurrent use.
func (e *Ending) Cut(reason string, drop bool) {
	if drop {
		e.dropped.Store(true)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.cut {
		e.cut, e.reason = true, reason
	}
	e.out.DropLocked()
}

// Dropped reports whether calls that are not written to Redis are dropped. It takes no mutex. Safe
// for concurrent use.
func (e *Ending) Dropped() bool { return e.dropped.Load() }

// IsCut reports whether the session was ended from outside. Safe for concurrent use.
func (e *Ending) IsCut() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cut
}

// IsCutLocked is IsCut for a caller that holds the session's mutex.
func (e *Ending) IsCutLocked() bool { return e.cut }

// Expires reports whether all locks expire, because the session was ended from outside. A host that
// has vanished counts as a connection that broke. Safe for concurrent use.
func (e *Ending) Expires() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cut && e.reason != PeerTimeout
}

// StopReading records that the loop has ended.
func (e *Ending) StopReading() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
}

// IsOverLocked reports whether the loop has ended. The caller holds the session's mutex.
func (e *Ending) IsOverLocked() bool { return e.over }

// Ended reports whether the session has ended or is about to end. Safe for concurrent use.
func (e *Ending) Ended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over || e.cut
}

// Why is the reason, for logs and figures. It is the cause if there is no other. Only the session's
// loop calls it.
func (e *Ending) Why() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reason != "" {
		return e.reason
	}
	return e.cause.String()
}
