package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/limits"
	"leash/proxy/blocking"
	"leash/proxy/call"
	"leash/proxy/client"
	"leash/proxy/command"
	"leash/proxy/dial"
	"leash/proxy/ending"
	"leash/proxy/entry"
	"leash/proxy/locks"
	"leash/proxy/login"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/subscribers"
	"leash/proxy/tracking"
	"leash/proxy/transaction"
)

// session is one client connection and its state. The packages below proxy/ know it by interfaces
// of theirs. What only one of them needs is in a type of its own, such as callSession.
//
// Its loop (Run) reads commands and submits them to links. The links' goroutines bring the replies
// (call.Call) and write them to the socket (client.Output). So a client can pipeline commands. The
// loop waits only when the window is full, at a barrier, or for a command that blocks.
//
// A session has ended when none of these is left: calls in flight, replies that have not gone to
// the socket, bytes that the socket has not accepted. mu guards all three, and every change of one
// wakes the loop.
type session struct {
	server *Server
	conn   *client.Conn
	id     int64

	// Used by the loop's goroutine only.
	input   input
	router  route.Router
	scratch []byte                   // buffer for replies that Leash makes
	tx      *transaction.Transaction // from MULTI or WATCH on; otherwise nil
	modes   modes                    // the states in which commands are treated differently
	counts  commandCounts            // of commands since the last read

	ctx  context.Context // done when the session has ended or is ended from outside
	stop context.CancelFunc

	blocked    atomic.Pointer[blocking.Wait]          // what the session waits for; nil while it does not
	tracking   tracking.Client                        // client-side caching
	monitoring atomic.Pointer[monitor]                // MONITOR is on
	subscriber atomic.Pointer[subscribers.Subscriber] // nil until used

	activity activity

	limits *limits.Client // nil: the server limits neither users nor addresses

	locks locks.Client
	move  atomic.Bool // the client wants to know of a stop before
	end   ending.Ending

	// mu guards the fields below, and a part of end. Never held across I/O.
	mu    sync.Mutex
	calls call.Queue
	out   client.Output // replies in order, for the socket
}

func newSession(srv *Server, c *client.Conn) *session {
	s := &session{server: srv, conn: c, limits: limits.NewClient(srv.users, srv.addresses)}
	s.activity.since = time.Now()
	calls := callSession{s}
	s.out.Init(c, calls, &s.mu)
	s.end.Init(&s.mu, &s.out)
	s.calls.Init(&srv.relaying, calls, &s.out, &s.mu)
	s.ctx, s.stop = context.WithCancel(srv.ctx)
	s.router.Init(route.Config{
		Context: s.ctx, Up: srv.up, Rights: srv.rights, Session: calls, Calls: &s.calls, Out: &s.out, Mu: &s.mu,
		Log: srv.log, RequireAuth: srv.cfg.RequireAuth,
	})
	s.tracking.Init(trackingSession{s}, &s.router)
	s.locks.Config = locks.Config{
		Server: &srv.locking, Session: lockSession{calls}, Conn: c, End: &s.end, Router: &s.router,
		Limits: s.limits, Tracking: &s.tracking,
	}
	settings := srv.settings.Load()
	maxBulk := min(settings.MaxBulk, srv.up.MaxBulk())
	s.input.mu, s.input.garbage = &s.mu, &srv.garbage
	s.input.parser.Limits = resp.Limits{MaxBulk: maxBulk, MaxArgs: settings.MaxArgs,
		MaxCommand: max(maxCommand, int(maxBulk)+call.MaxUnread)}
	return s
}

// Run implements client.Session. It serves the client until the session has ended, and then closes
// the socket. A panic ends only this session.
func (s *session) Run() {
	defer s.server.remove(s)
	defer s.close()
	s.guard("session", s.live)
}

// live is the part of Run that guard protects from panics.
func (s *session) live() {
	lane := s.server.startLane()
	s.server.up.Nodes.Join(lane)
	s.router.Start(lane)
	s.refreshAccess()
	if s.entry().Enter(s.activity.since) && s.enterLimits() {
		s.serve()
	}
}

// entry is what lets the client in.
func (s *session) entry() entry.Client {
	return entry.Client{Server: &s.server.entries, Conn: s.conn, End: &s.end, Login: s.login(), Read: s.read}
}

func (s *session) login() login.Caller {
	return login.Caller{Session: clientSession{s}, Router: &s.router}
}

// blocking is what makes the session wait.
func (s *session) blocking() blocking.Client {
	return blocking.Client{
		Session: callSession{s}, Conn: s.conn, End: &s.end, Router: &s.router, Limits: s.limits,
		Tracking: &s.tracking, Now: &s.blocked,
	}
}

func (s *session) serve() {
	for first := true; ; first = false {
		if err := s.read(); err != nil {
			s.end.By(err)
			return
		}
		if first && s.entry().RefuseTLS(s.input.batch.unparsed()) {
			return
		}
		if !s.process() {
			return
		}
		s.out.Flush()
		if !s.calls.Readable() { // stops reading while too much output is unread
			return
		}
	}
}

// process runs the complete commands that have been read. It returns false when the session ends.
func (s *session) process() bool {
	for {
		cmd, n, err := s.input.parser.Next(s.input.batch.unparsed())
		if err != nil {
			if !s.tx.AwaitQueued() {
				return false
			}
			s.end.Set(ending.Refused)
			s.server.stats.protocolErrors.Add(1)
			s.server.log.Debug("protocol error", "session", s.id, "client", s.conn.RemoteAddr(), "err", err)
			s.router.Fail("ERR " + err.Error())
			return false
		}
		if n == 0 {
			// the rest of the pipeline comes with the rest of this command
			if len(s.input.batch.unparsed()) == 0 {
				s.router.EndPipeline()
			}
			s.updateDescription()
			return s.tx.AwaitQueued()
		}
		s.input.batch.parsed += n
		if len(cmd.Args) > 0 && !s.dispatch(cmd) {
			return false
		}
	}
}

// dispatch runs one command. It returns false when the session ends.
func (s *session) dispatch(cmd resp.Command) bool {
	c := s.server.commands.Lookup(cmd.Args)
	s.calls.Class = s.counts.add(c)
	if !s.router.Begin(c) {
		return false
	}
	if s.server.pauses.Any() && !s.awaitUnpaused(c, cmd) {
		return false
	}
	if !s.tracking.Before(c, s.modes&modeMulti != 0, s.tx != nil) {
		return false
	}
	if s.modes != 0 {
		if handled, ok := s.inMode(c, cmd); handled {
			return ok
		}
	}
	if s.server.up.Nodes.AnyBusy() && s.tx == nil { // a transaction has a pinned connection
		if reply := s.router.BusyReply(c, cmd); reply != nil {
			return s.router.Answer(reply)
		}
	}
	if c == nil {
		if command.IsOwn(cmd.Args[0]) {
			return lock(s, nil, cmd) // lockcmd refuses it
		}
		return s.unknown(cmd)
	}
	return s.run(c, cmd)
}

// ChangeLane implements login.Session.
func (s *session) ChangeLane(lane dial.Lane) {
	s.router.ChangeLane(lane)
	s.refreshAccess()
	s.Count(s.subscriber.Load().Len())
	s.locks.Identify()
}
