package links

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
)

// maxPending is how many bytes of requests may wait on one link before sessions pause (Link.Room).
const maxPending = 32 << 20

// Link is the one shared, pipelined connection to a node in a lane. Requests are written in the
// order of Submit, and their replies come in that order.
//
// When the connection breaks, requests that were written are lost (Sink.Lost with written set) and
// never repeated. Requests that were not written go out on the next connection. A Link dials on its
// first request or on Open.
//
// All methods are safe for concurrent use and do not block.
type Link struct {
	node *Node
	lane dial.Lane
	wake chan struct{} // size 1: wakes the link's goroutine

	receiver Receiver // takes all frames of a link of Node.Listen; nil on other links

	// The fields below are for pinned links (Node.Pin), which have only one connection.
	pinned      bool
	receivePush func(frame []byte) // takes frames that answer no request; may be nil
	clientID    atomic.Int64
	loaded      map[string]bool // used by FirstUse; only the session that has the link uses it

	refusesWrites atomic.Bool // a single Redis has become a replica

	scripts scripts // used on a link for scripts
	detour          // for requests that get no answer

	// mu guards the fields below. It is never held across I/O or a sink's method.
	mu           sync.Mutex
	pending      queue // submitted, not written
	written      queue // written since the reader last took them over
	pendingBytes int
	room         chan struct{} // closed when there is room again; nil: no session waits
	idle         bool          // the link's goroutine waits for wake
	wanted       bool          // a connection is wanted without a request
	conn         net.Conn      // nil while not connected
	broken       error         // why conn can no longer be used
	closing      error         // set by close; the link's goroutine then ends
	dead         bool          // the link's goroutine has ended
	login        dial.Login    // of conn
	steady       bool          // on a pinned link: AUTH may be sent on it, see Steady
	hungUp       bool          // HangUp was called: Redis ends conn
}

func newLink(n *Node, lane dial.Lane) *Link {
	return &Link{node: n, lane: lane, wake: make(chan struct{}, 1)}
}

// Submit queues c after all earlier requests. On a closed link, c is lost before Submit returns. So
// the caller must not hold a lock that the request's sink needs.
func (l *Link) Submit(c *Request) {
	l.mu.Lock()
	if l.dead {
		cause := l.closing
		l.mu.Unlock()
		c.lost(l, false, cause)
		return
	}
	idle := l.submitLocked(c)
	l.mu.Unlock()
	if idle {
		Signal(l.wake)
	}
}

// submitLocked queues c. It reports whether the link's goroutine must be woken.
func (l *Link) submitLocked(c *Request) (idle bool) {
	l.pending.push(c)
	l.pendingBytes += len(c.Command)
	idle = l.idle
	l.idle = false
	return idle
}

// Open dials without a request if there is no connection. It is for scripts, which do not wait for
// a connection. Also, Redis ends the connections of a deleted user, so a connection lets Leash
// notice that.
func (l *Link) Open() {
	l.mu.Lock()
	l.wanted = l.conn == nil && l.closing == nil
	idle := l.idle && l.wanted
	if idle {
		l.idle = false
	}
	l.mu.Unlock()
	if idle {
		Signal(l.wake)
	}
}

// Room returns nil while the link takes more requests. Otherwise it returns a channel that is
// closed when there is room again. Submit accepts requests in either case.
func (l *Link) Room() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pendingBytes < maxPending || l.dead {
		return nil
	}
	if l.room == nil {
		l.room = make(chan struct{})
	}
	return l.room
}

// close ends the link. Requests that are not written are lost with cause and can be sent elsewhere.
// Requests that are written are lost for good.
func (l *Link) close(cause error) {
	l.mu.Lock()
	if l.closing == nil {
		l.closing = cause
	}
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
	Signal(l.wake)
}

// breakConn ends the current connection. The next requests get a new one.
func (l *Link) breakConn(cause error) {
	l.mu.Lock()
	conn := l.conn
	if conn != nil && l.broken == nil {
		l.broken = cause
	}
	l.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
	Signal(l.wake)
}

// run is the link's goroutine: it dials, writes, and ends everything. It returns when the link is
// closed or ctx is done.
func (l *Link) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, guard.Func(l.node.nodes.log, "end of a link", func() { l.close(ErrClosed) }))
	defer stop()
	var downSince time.Time
	backoff := minBackoff
	again := false // dial without a request
	for again || l.awaitCall() {
		again = false
		start := time.Now()
		conn, login, err := l.connect(ctx)
		if err == nil {
			downSince, backoff = time.Time{}, minBackoff
			l.node.accepted()
			l.serve(conn, login)
			if l.pinned {
				if l.mayBeRefused() {
					l.node.Link(l.lane).Open()
				}
				l.close(ErrClosed)
				continue
			}
			l.node.nodes.hooks.Refresh()
			again = l.mayBeRefused()
			continue
		}
		if errors.Is(err, dial.ErrRefused) {
			l.refuseCredential()
			continue
		}
		if no, ok := errors.AsType[*dial.NoDatabase](err); ok {
			l.losePending(no)
			continue
		}
		if isRedisFull(err) {
			l.node.freeIdle()
			// it gets no session; many such links would dial again and again
			if l.pinned {
				l.losePending(errRedisFull)
				l.close(errRedisFull)
				continue
			}
		}
		if downSince.IsZero() {
			downSince = start
			if l.node.refusedAnew(err.Error()) { // else the log has it, from another link
				l.logRefusal(err)
			}
		}
		l.node.nodes.hooks.Refresh()
		if l.lane.Replica {
			l.node.Unfit()
		}
		l.backOff(ctx, downSince, backoff, err)
		backoff = min(2*backoff, maxBackoff)
	}
	l.end()
}

// connect makes a connection. login is the state of its login.
func (l *Link) connect(ctx context.Context) (conn net.Conn, login dial.Login, err error) {
	login = l.node.nodes.Dialer.NewLogin()
	err = guard.Call(l.node.nodes.log, "dial", func() (err error) {
		conn, err = l.dial(ctx)
		return err
	}, "node", l.node.Addr)
	return conn, login, err
}

// awaitCall blocks until there is something to write or a connection is wanted. It returns false
// when the link is closed.
func (l *Link) awaitCall() bool {
	for {
		l.mu.Lock()
		closing, some := l.closing != nil, l.pending.len() > 0 || l.wanted
		l.idle, l.wanted = !closing && !some, false
		l.mu.Unlock()
		if closing || some {
			return !closing
		}
		<-l.wake
	}
}

// serve uses conn until it breaks or the link is closed, and returns why.
func (l *Link) serve(conn net.Conn, login dial.Login) (cause error) {
	l.mu.Lock()
	l.conn, l.broken, l.login = conn, nil, login
	l.connectedLocked()
	closing := l.closing != nil
	l.mu.Unlock()
	if closing {
		conn.Close()
	}
	r := newReplyReader(l, conn)
	var reading sync.WaitGroup
	log, node := l.node.nodes.log, l.node.Addr
	reading.Go(func() {
		if err := guard.Do(log, "link reader", r.run, "node", node); err != nil {
			r.giveUp(err)
		}
	})
	w := requestWriter{link: l, conn: conn}
	if err := guard.Do(log, "link writer", w.run, "node", node); err != nil {
		l.breakConn(err)
	}
	conn.Close()
	reading.Wait()

	l.mu.Lock()
	cause = l.broken
	switch {
	case l.closing != nil:
		cause = l.closing
	case l.hungUp:
		cause = ErrClosed
	}
	l.conn = nil
	l.connectedLocked()
	lost := append(r.unanswered(), l.written.popAll()...)
	l.mu.Unlock()
	// a pinned link is closed when its client leaves
	if !errors.Is(cause, ErrClosed) {
		l.node.nodes.stats.connectionsLost.Add(1)
	}
	if len(lost) > 0 && l.receiver == nil && !(l.pinned && errors.Is(cause, ErrClosed)) {
		l.node.nodes.log.Warn("connection to redis lost", "node", l.node.Addr, "calls", len(lost), "err", cause)
	}
	for _, c := range lost {
		c.lost(l, true, cause)
	}
	return cause
}

// losePending removes all unwritten requests from the link and loses them, in order.
func (l *Link) losePending(cause error) {
	for c := l.nextPending(); c != nil; c = l.nextPending() {
		c.lost(l, false, cause)
	}
}

// nextPending removes the first unwritten request from the link. It is nil when there is none.
func (l *Link) nextPending() *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.pending.pop()
	if c != nil {
		l.pendingBytes -= len(c.Command)
	}
	l.freeRoomLocked()
	return c
}

// end loses the pending requests. Requests that come while it runs are queued after them. So no
// request can be sent elsewhere before an earlier one.
func (l *Link) end() {
	for {
		l.losePending(l.closing)
		l.mu.Lock()
		if l.pending.len() == 0 {
			l.dead = true
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// freeRoomLocked wakes the sessions that wait for room.
func (l *Link) freeRoomLocked() {
	if l.room != nil && (l.pendingBytes < maxPending/2) {
		close(l.room)
		l.room = nil
	}
}
