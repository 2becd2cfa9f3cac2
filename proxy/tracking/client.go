package tracking

import (
	"sync"
	"sync/atomic"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/route"
)

// Session is what a Client needs of its session.
type Session interface {
	// Caching returns the Client of the session with that ID, or nil if there is no such session.
	// Safe for concurrent use.
	Caching(id int64) *Client
	// Ended reports whether the session has ended or is about to end. Safe for concurrent use.
	Ended() bool
	// Tell sends a frame to a client that is subscribed to any channel. The caller must flush the
	// output that it returns, if any. Safe for concurrent use.
	Tell(frame []byte) links.Flusher
	// Keeps reports whether the session goes on using a connection, because keys are watched on it.
	// It then ends the connection itself. Only the session's loop calls it.
	Keeps(l *links.Link) bool
}

// Client is the client-side caching of one session. Only the session's loop calls its methods,
// except for those that say otherwise. Tracking is off at first.
type Client struct {
	session Session
	router  *route.Router
	calls   *call.Queue // of the router
	mu      *sync.Mutex // of the router

	own      atomic.Pointer[tracking]
	isTarget atomic.Bool // another session redirects or has redirected its invalidations here

	sources map[*tracking]struct{} // those that redirect here; guarded by mu
}

// Init prepares the caching of a session, whose router it is.
func (c *Client) Init(session Session, router *route.Router) {
	c.session, c.router, c.calls, c.mu = session, router, router.Calls, router.Mu
}

// On reports whether tracking is on. Safe for concurrent use.
func (c *Client) On() bool { return c.own.Load() != nil }

// Cache returns what the router needs. It is nil without tracking. Safe for concurrent use.
func (c *Client) Cache() route.Cache {
	if t := c.own.Load(); t != nil {
		return t
	}
	return nil
}

// Replied records that a node has sent the call's reply or a part of it. Safe for concurrent use.
func (c *Client) Replied(n *links.Node, of *call.Call) {
	if t := c.own.Load(); t != nil {
		t.replied(n, of)
	}
}

// View is what CLIENT LIST shows of tracking.
type View struct {
	On        bool
	Broadcast bool  // with BCAST
	Broken    bool  // the client of REDIRECT has gone
	Redirect  int64 // the client that gets the invalidations; 0: the client itself; -1: none
}

// View describes the tracking. Safe for concurrent use.
func (c *Client) View() View {
	t := c.own.Load()
	if t == nil {
		return View{Redirect: -1}
	}
	v := View{On: true, Broadcast: t.bcast.Load()}
	if r := t.redirect.Load(); r != nil {
		v.Redirect, v.Broken = r.to.router.ID, r.broken.Load()
	}
	return v
}

// Before prepares for a command of the client. next is nil for a command in no table. inMulti means
// that Redis only queues the command, and pinned that the session has a transaction's connection.
// It returns false when the session ends.
func (c *Client) Before(next *command.Command, inMulti, pinned bool) bool {
	if !c.Expects() {
		return true
	}
	if next != nil && next.Overtakes() && !inMulti && !c.Await() {
		return false
	}
	if t := c.own.Load(); t != nil && t.stale.Load() && t.redirect.Load() != nil && !pinned {
		if !c.router.Barrier() {
			return false
		}
		t.reconnect()
	}
	return true
}

// CheckTopology looks for moved slots for a session that sends nothing. A node sends no
// invalidations for slots that have left it. Only one goroutine may call it, but at any time.
func (c *Client) CheckTopology() {
	t := c.own.Load()
	if t == nil {
		return
	}
	now := c.router.Up.Topology()
	if t.seen.Swap(now) != now {
		t.forgetAll()
	}
	t.everywhere()
}

// ForgetAll tells the client that all its cached values are invalid, after the replies in flight.
// It does nothing without tracking. Safe for concurrent use.
func (c *Client) ForgetAll() {
	if t := c.own.Load(); t != nil {
		t.forgetAll()
	}
}

// Stop ends tracking, if it is on.
func (c *Client) Stop() {
	if t := c.own.Load(); t != nil {
		t.stop()
	}
}
