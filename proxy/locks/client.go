// Package locks is the way from a client's session to package lockcmd. A [Client] runs the lock
// commands of one client, watches the client while a command waits, and settles its locks at the
// end.
package locks

import (
	"sync/atomic"
	"time"

	"leash/internal/limits"
	"leash/lockcmd"
	"leash/proxy/client"
	"leash/proxy/dial"
	"leash/proxy/ending"
	"leash/proxy/route"
	"leash/proxy/scan"
	"leash/proxy/slowlog"
	"leash/proxy/tracking"
)

// Session is what the locks of a client need of its session. Its methods do not block.
type Session interface {
	client.Owner
	// Identity is the client as its locks know it. Only the session's loop calls it.
	Identity() lockcmd.Client
	// Cut ends the session for a reason. When it returns, the session is cut off from its client
	// and from Redis. Safe for concurrent use.
	Cut(reason string)
	// Notify gives the client a push frame, after all that it was sent before. It returns false,
	// and does nothing, if the client has no RESP3. Safe for concurrent use.
	Notify(frame []byte) bool
}

// Server is what the locks of all clients share. It is not changed after its first use.
type Server struct {
	Service    *lockcmd.Service
	Scans      *scan.Scans
	Slow       *slowlog.Log
	RefuseLane func(dial.Lane) // ends the sessions of a user who no longer exists
}

// Config is what a Client uses of its session and of the server.
type Config struct {
	*Server
	Session  Session
	Conn     *client.Conn
	End      *ending.Ending
	Router   *route.Router
	Limits   *limits.Client
	Tracking *tracking.Client
}

// Client is what a session has for its locks. It needs its Config. Only the session's loop calls
// the methods that do not say otherwise.
type Client struct {
	Config
	carrier atomic.Pointer[lockcmd.Carrier] // nil before the first lock command, and after Close
	watcher atomic.Pointer[client.Watcher]  // of the running lock command
	next    *watch                          // for the next lock command
	scratch []byte                          // buffer for replies
	silence atomic.Int64                    // see BeginSilence
	moves   atomic.Bool                     // the connection ends soon, so it gets no lock
}

// lateCommandTime is how long Redis may still execute a command from a lost connection.
const lateCommandTime = 10 * time.Second

// open returns the carrier, and makes it if there is none.
func (l *Client) open() *lockcmd.Carrier {
	if l.carrier.Load() == nil {
		l.carrier.Store(l.Service.NewCarrier(l.Router.ID, l.Session.Identity(), (*host)(l), (*host)(l)))
	}
	return l.carrier.Load()
}

// Carrier returns what the client's locks depend on, or nil if it has used none. Safe for
// concurrent use.
func (l *Client) Carrier() *lockcmd.Carrier { return l.carrier.Load() }

// Holds returns the number of locks and permits. Safe for concurrent use.
func (l *Client) Holds() int {
	if carrier := l.Carrier(); carrier != nil {
		return carrier.Holds()
	}
	return 0
}

// Running reports whether a lock command runs. Safe for concurrent use.
func (l *Client) Running() bool { return l.watcher.Load() != nil }

// Identify tells the locks that the client may have another name, user or protocol.
func (l *Client) Identify() {
	carrier := l.Carrier()
	if carrier == nil {
		return
	}
	carrier.Identify(l.Session.Identity())
	if !l.Router.Lane.RESP3 {
		carrier.StopPushes()
	}
}

// RefuseGrants makes all later commands get no lock, unless the client has locks or waits for one.
// It reports whether it did. Safe for concurrent use.
func (l *Client) RefuseGrants() bool {
	l.moves.Store(true) // a command that begins at the same time sees it, or is seen here
	if l.Running() || l.Holds() > 0 {
		l.moves.Store(false)
		return false
	}
	return true
}

// Close ends the carrier in the given way. All its locks expire if the session was cut off, or if
// Redis may still execute an earlier command of the session.
func (l *Client) Close(how lockcmd.Ending) {
	carrier := l.carrier.Swap(nil)
	if carrier == nil {
		return
	}
	var unsure time.Time
	if lost := l.Router.Calls.LastLoss(); !lost.IsZero() {
		unsure = lost.Add(lateCommandTime)
	}
	switch {
	case time.Now().Before(unsure):
		carrier.EndUnsure(unsure)
	case l.End.Expires():
		carrier.End(lockcmd.Expire)
	default:
		carrier.End(how)
	}
}
