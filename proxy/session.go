package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"leash/lockcmd"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// session is one client connection and its state.
//
// Its loop (run) reads commands and hands them to links; the links' goroutines
// bring the replies (call.reply) and write them to the socket (flush). So a
// pipeline flows: the loop waits only when the window is full, at a barrier,
// or for a command that blocks by nature.
//
// A session has ended when three places are empty: calls in flight, replies
// not yet given to the socket, bytes the socket has not taken. All three live
// under mu and every change of one wakes the loop.
type session struct {
	server *Server
	conn   *conn
	id     int64

	// Of the loop's goroutine.
	parser      resp.Parser
	in          *batch // being read into
	spare       *batch // the last one, which may still be referred to
	topology    *upstream.Topology
	links       []*upstream.Link   // by master's index, nil until used
	reads       reads              // from replicas
	keyless     int                // master that serves commands without keys
	scratch     []byte             // for replies made here
	ahead       []byte             // read by a watcher while a command blocked
	cause       endCause           // why the loop ended
	wasReset    bool               // reading failed, and not by the client's closing
	tx          *transaction       // from MULTI or WATCH on, nil without
	caching     []byte             // CLIENT CACHING, for the next command
	nextWatcher *disconnectWatcher // for the next lock command; nil before the first
	monitors    []*upstream.Link   // on which Redis tells what it executes
	modes       modes              // what makes a command more than ordinary
	lane        upstream.Lane      // changed only while no call is in flight
	written     []*upstream.Node   // that the session has written to, for WAIT
	current     *command           // the one being run; nil for one in no table
	mute        bool               // its replies are not given to the client
	replyOff    bool               // nor are those of the commands behind it

	ctx  context.Context // done when the session is ended from outside or is over
	stop context.CancelFunc

	watcher      atomic.Pointer[disconnectWatcher] // of the lock command under way
	blocked      atomic.Pointer[blocked]           // the command that blocks in Redis
	tracking     atomic.Pointer[tracking]          // client-side caching; nil: off
	redirectedTo atomic.Bool                       // another session's invalidations come here, or did
	monitoring   atomic.Bool                       // MONITOR is under way
	guarded      atomic.Bool                       // the connection has holds or waiters

	listener atomic.Pointer[pubsub.Listener] // nil until the first subscription

	// For CLIENT LIST; see publish.
	lastCommand atomic.Pointer[command]
	lastSeen    atomic.Int64 // by Server.clock
	queued      atomic.Int64 // commands since MULTI and MULTI itself; 0 outside of it
	noEvict     atomic.Bool  // CLIENT NO-EVICT

	// Of the patrol's goroutine.
	slowSince    time.Time // when too many messages waited; zero: they do not
	unackedSince time.Time

	carrier atomic.Pointer[lockcmd.Carrier] // nil until the first lock command
	silence atomic.Int64                    // see silence.go
	leaving atomic.Bool                     // the loop shall read no more
	killed  atomic.Bool                     // what is not written to Redis stays unwritten

	// mu guards the fields below. Never held across I/O.
	mu      sync.Mutex
	wake    sync.Cond // the loop waits here
	waiting bool      // whether it does
	wakeAt  int       // number of calls at which it goes on
	head    *call     // calls in flight, oldest first
	tail    *call
	free    *call // for reuse
	calls   int
	bytes   int // of their requests
	held    int // calls that wait to be sent again: nothing else is sent
	// calls have moved to another link: nothing else is sent before their replies
	moved   bool
	largest int       // recent reply, decaying by an eighth a reply
	over    bool      // the loop has ended
	lostAt  time.Time // when a written call was last lost: Redis may still run it
	// it panicked: a call may be in the list that nobody will answer
	faulty           bool
	keptBytes        int              // bytes of replies that wait behind an older call's
	out              chunks           // replies in order, for the socket
	replies          *chunks          // where they go: out, but for a moment (capture)
	writtenElsewhere []*upstream.Node // than where it was sent first
	pushes           chunks           // frames that answer no command, behind the reply under way
	// pushes wait for what the loop is about to give the client; see cork
	pushHolds     int
	pushed        int  // bytes of messages since nothing waited
	flushing      bool // somebody will call Flush
	writing       bool // somebody writes to the socket
	progress      time.Time
	outputDropped bool  // the socket is of no use any more: output is dropped
	failed        error // of the write that made it so
	cut           bool  // the session was ended from outside; it is deaf too
	killedBy      string
	name          string // CLIENT SETNAME
	shownAs       string // with its locks; "": not known yet
	libName       string // CLIENT SETINFO
	libVersion    string
	since         time.Time
}

// endCause is why a session's loop ended; rule R28 makes a difference of it.
type endCause uint8

const (
	endBroken  endCause = iota // reset, time-out, whatever is not known to be better
	endFIN                     // the client closed
	endQuit                    // QUIT
	endRefused                 // protocol error
	endKilled                  // by Leash
)

func newSession(srv *Server, c *conn) *session {
	s := &session{server: srv, conn: c, largest: firstReply, since: time.Now()}
	s.wake.L = &s.mu
	s.replies = &s.out
	s.ctx, s.stop = context.WithCancel(srv.ctx)
	s.reads.wanted = srv.up.ReadsReplicas()
	maxBulk := min(srv.cfg.MaxBulk, srv.up.MaxBulk())
	s.parser.Limits = resp.Limits{MaxBulk: maxBulk, MaxArgs: srv.cfg.MaxArgs, MaxCommand: max(maxCommand, int(maxBulk)+maxUnread)}
	return s
}

// run serves the client until the session has ended; it then closes the
// socket. A panic ends the session alone.
func (s *session) run() {
	defer s.server.remove(s)
	defer s.close()
	s.guard("session", s.live)
}

// live is what run guards.
func (s *session) live() {
	lane := s.server.startLane()
	s.server.up.Join(lane)
	s.mu.Lock()
	s.lane = lane
	s.mu.Unlock()
	s.refreshLimits()
	if err := s.readOrigin(); err != nil {
		s.refuseOrigin(err)
		return
	}
	s.serve()
}

func (s *session) serve() {
	for {
		if err := s.read(); err != nil {
			s.cause = s.causeOf(err)
			return
		}
		if !s.process() {
			return
		}
		s.Flush()
		if !s.await(maxCalls) { // unread output stops reading
			return
		}
	}
}

// process runs the complete commands that have been read; false ends the session.
func (s *session) process() bool {
	for {
		cmd, n, err := s.parser.Next(s.in.unparsed())
		if err != nil {
			if s.tx != nil && !s.tx.awaitQueued() {
				return false
			}
			s.cause = endRefused
			s.server.stats.protocolErrors.Add(1)
			s.server.log.Debug("protocol error", "session", s.id, "client", s.conn.RemoteAddr(), "err", err)
			s.fail("ERR " + err.Error())
			return false
		}
		if n == 0 {
			// the pipeline goes on behind half a command
			s.reads.wrote = s.reads.wrote && len(s.in.unparsed()) > 0
			s.publish()
			return s.tx == nil || s.tx.awaitQueued()
		}
		s.in.parsed += n
		if len(cmd.Args) > 0 && !s.dispatch(cmd) {
			return false
		}
	}
}

// dispatch runs one command; false ends the session.
func (s *session) dispatch(cmd resp.Command) bool {
	c := s.server.commands.lookup(cmd.Args)
	s.current = c
	if reads := c != nil && c.readable; !reads {
		s.reads.wrote = true
		if s.reads.replicas && !s.leaveReplicas() {
			return false
		}
	}
	if s.server.pauses.current.Load() != nil && !s.awaitUnpaused(c, cmd) {
		return false
	}
	if s.caches() && c != nil && c.overtakes() && s.modes&modeMulti == 0 && !s.awaitInvalidations() {
		return false
	}
	if t := s.tracking.Load(); t != nil && t.stale.Load() && t.redirect.Load() != nil && s.tx == nil {
		if !s.barrier() {
			return false
		}
		t.reconnect()
	}
	if s.modes != 0 {
		if handled, ok := s.inMode(c, cmd); handled {
			return ok
		}
	}
	if s.server.up.AnyBusy() {
		if reply := s.busyReply(c, cmd); reply != nil {
			return s.answer(reply)
		}
	}
	if c == nil {
		if isLockCommand(cmd.Args[0]) {
			return s.lock(cmd.Args)
		}
		return s.unknown(cmd)
	}
	return c.run(s, c, cmd)
}

// refreshLimits applies Redis's tighter limits while the client has still to
// authenticate.
func (s *session) refreshLimits() {
	s.parser.Limits.Unauthenticated = !s.authenticated()
}

// authenticated reports whether Redis would serve this session's commands.
func (s *session) authenticated() bool {
	return s.lane.User != "" || !s.server.up.AuthRequired()
}

// answer gives a reply made here its place behind the calls in flight.
func (s *session) answer(reply []byte) bool {
	if s.mute {
		return true
	}
	if !s.admitCall(len(reply)) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == 0 {
		if !s.outputDropped {
			s.replies.append(reply)
		}
		return true
	}
	c := s.newCallLocked()
	c.bytes = len(reply)
	s.pushLocked(c)
	c.buffer.append(reply)
	s.keptBytes += len(reply)
	c.size = len(reply)
	c.done = true
	return true
}

// fail answers with an error; message begins with its code.
func (s *session) fail(message string) bool {
	s.scratch = resp.AppendError(s.scratch[:0], message)
	return s.answer(s.scratch)
}

// kill ends the session from outside, for the reason given; it does not block.
// With drop, what has not been written to Redis stays unwritten.
func (s *session) kill(reason string, drop bool) {
	if drop {
		s.killed.Store(true)
	}
	s.mu.Lock()
	if !s.cut {
		s.cut, s.killedBy = true, reason
	}
	s.dropOutputLocked()
	s.mu.Unlock()
	s.conn.shut()
	s.stop()
}

func (s *session) isCut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}
