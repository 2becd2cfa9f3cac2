package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/internal/limits"
	"leash/lockcmd"
	"leash/proxy/call"
	"leash/proxy/client"
	"leash/proxy/clients"
	"leash/proxy/cluster"
	"leash/proxy/command"
	"leash/proxy/dial"
	"leash/proxy/entry"
	"leash/proxy/links"
	"leash/proxy/locks"
	"leash/proxy/operators"
	"leash/proxy/pubsub"
	"leash/proxy/rights"
	"leash/proxy/scan"
	"leash/proxy/scripts"
	"leash/proxy/slowlog"
	"leash/proxy/upstream"
)

// Server serves clients. Make one with New and run it once with Serve.
type Server struct {
	cfg          Config
	settings     atomic.Pointer[Settings] // instead of the same fields of cfg; never changed in place
	announce     cluster.Addr             // parsed from Config.Announce
	firstTCPAddr cluster.Addr             // shown to clients of unix sockets; set by Serve
	log          *slog.Logger
	up           *upstream.Upstream
	rights       *rights.Checker
	locks        *lockcmd.Service
	exchange     *pubsub.Exchange
	commands     command.Table
	permissions  permissions
	users        *limits.Users  // nil: no limits
	addresses    *limits.Users  // by IP address; nil: no limit
	accepts      *limits.Bucket // nil: no limit
	handlers     []handler      // by index of the command
	relaying     call.Server
	locking      locks.Server
	pauses       clients.Pauses
	scripts      scripts.Seen
	entries      entry.Server

	leash   operators.Leash
	scans   scan.Scans
	stats   stats
	garbage garbage
	memory  memory
	clock   atomic.Int64 // seconds since started; the session check updates it
	started time.Time

	ctx     context.Context // done when the server has stopped
	cancel  context.CancelFunc
	running sync.WaitGroup // writers, watchers, session check, garbage, memory

	// mu guards the fields below. Never held across I/O.
	mu       sync.Mutex
	sessions map[*session]struct{}
	lastID   int64
	draining bool
	closed   bool
	changed  chan struct{} // closed and replaced when a session ends
}

// New makes a server for clients of up. Lock commands go to service, and subscriptions go through
// exchange. up must be connected. commands is the command table of Redis (up.Commands); if empty,
// the built-in table is used.
func New(cfg Config, up *upstream.Upstream, service *lockcmd.Service, exchange *pubsub.Exchange, commands []any,
	log *slog.Logger) (*Server, error) {
	parsed, err := command.Parse(commands)
	if err != nil {
		log.Warn("cannot read the command table of redis: using the built-in one", "err", err)
		parsed = nil
	}
	announce, err := cluster.ParseAddr(cfg.Announce)
	if err != nil {
		return nil, fmt.Errorf("--announce %s: %w", cfg.Announce, err)
	}
	table := command.New(parsed)
	s := &Server{
		cfg: cfg.withDefaults(), announce: announce, log: log, up: up, rights: rights.New(up, log), locks: service,
		exchange: exchange,
		commands: table, handlers: handlersOf(table),
		sessions: make(map[*session]struct{}),
		changed:  make(chan struct{}),
		garbage:  garbage{wake: make(chan struct{}, 1)},
		started:  time.Now(),
	}
	s.settings.Store(&s.cfg.Settings)
	s.relaying.Nodes, s.relaying.Commands, s.relaying.Script, s.relaying.Log = up, table, s.scripts.Find, log
	s.relaying.Slow = slowlog.New(s.cfg.SlowerThan, s.cfg.SlowLength)
	s.locking = locks.Server{Service: service, Scans: &s.scans, Slow: s.relaying.Slow, RefuseLane: s.refuseLane}
	s.leash.Server, s.leash.Locks, s.leash.Slow = s, service, s.relaying.Slow
	s.leash.Settings, s.leash.Stop, s.leash.Commands = s.cfg.Process, cfg.Stop, table["LEASH"].Own.Subs
	s.entries.HeaderTimeout, s.entries.ProtectedMode = s.cfg.HeaderTimeout, cfg.ProtectedMode
	s.entries.TrustClients, s.entries.UserOf, s.entries.Log = cfg.TrustClients, cfg.UserOf, log
	s.users = limits.New(cfg.UserLimits)
	s.addresses = limits.New(limits.Limits{limits.Clients: int64(cfg.AddressClients)})
	s.memory.most, s.memory.soft = cfg.MaxMemory, cfg.MaxMemory/5*4
	if cfg.AcceptRate > 0 {
		s.accepts = limits.NewBucket(int64(cfg.AcceptRate))
	}
	if s.permissions, err = permissionsOf(&s.cfg, table); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	up.OnRefused(s.refuseLane)
	return s, nil
}

// Serve serves clients on the listeners until ctx is done. Then it drains (see drain) and returns
// when every session and goroutine has ended. It closes the listeners.
func (s *Server) Serve(ctx context.Context, lns []net.Listener) error {
	s.firstTCPAddr = cluster.FirstAddr(lns)
	if !s.repeat("session check", sessionCheckInterval, s.checkSessions) {
		return errors.New("proxy: server has been closed")
	}
	s.start("garbage", func() { guard.Repeat(s.ctx, s.log, "garbage", s.collect) })
	if s.memory.most > 0 {
		s.repeat("memory", memoryInterval, s.checkMemory)
	}
	var serving sync.WaitGroup
	failed := make(chan error, len(lns))
	listeners := make([]*client.Listener, len(lns))
	for i, ln := range lns {
		l := client.NewListener(ln, client.Config{
			Open: s.open, ProxyProtocol: s.cfg.ProxyProtocol, Log: s.log,
			PeerTimeout: func() time.Duration { return s.Settings().PeerTimeout }, Sent: &s.stats.outBytes,
		})
		listeners[i] = l
		serving.Go(func() { failed <- l.Serve() })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	for _, l := range listeners {
		l.StopAccepting()
	}
	s.drain()
	for _, l := range listeners {
		l.Finish()
	}
	serving.Wait()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	return err
}

// open makes a session for a new client. It refuses the client with Redis's own error when there
// are too many.
func (s *Server) open(c *client.Conn) client.Session {
	s.pace()
	if s.refuseForMemory(c) {
		return nil
	}
	one := newSession(s, c)
	if !s.add(one) {
		_, _ = c.Try([]byte("-" + msgTooMany + "\r\n"))
		s.log.Debug("client refused", "client", c.RemoteAddr(), "max-clients", s.Settings().MaxClients)
		return nil
	}
	return one
}

// pace delays a new connection if there are too many a second. Connections that follow wait in the
// queue of the system.
func (s *Server) pace() {
	if s.accepts == nil {
		return
	}
	wait, ok := s.accepts.TakeOne(time.Now())
	if !ok {
		wait = time.Second
	}
	if wait <= 0 {
		return
	}
	s.stats.acceptsDelayed.Add(1)
	links.Pause(s.ctx, wait)
}

// start runs f as a goroutine that Serve waits for. It returns false once the server has stopped.
// If a panic in f leaves something to clean up, f must use guard or session.guard.
func (s *Server) start(what string, f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(guard.Func(s.log, what, f))
	return true
}

// add registers the session and gives it its id. It returns false when there are too many or the
// server stops.
func (s *Server) add(one *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) >= s.settings.Load().MaxClients || s.draining {
		s.stats.refused.Add(1)
		return false
	}
	s.lastID++
	one.id = s.lastID
	one.calls.ID, one.router.ID = one.id, one.id
	s.sessions[one] = struct{}{}
	s.stats.accepted.Add(1)
	return true
}

func (s *Server) remove(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, one)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.AppendSeq(make([]*session, 0, len(s.sessions)), maps.Keys(s.sessions))
}

// count is how many sessions are in a state.
func (s *Server) count(is func(*session) bool) (n int) {
	for _, one := range s.all() {
		if is(one) {
			n++
		}
	}
	return n
}

func (s *Server) sessionCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Nodes shows the nodes of Redis. It visits every link, and does not block.
func (s *Server) Nodes() []links.NodeView { return s.up.NodeViews() }

func (s *Server) uptime() time.Duration { return time.Since(s.started) }

// startLane is the lane of a session that has not authenticated.
func (s *Server) startLane() dial.Lane {
	if s.cfg.TrustClients {
		return s.up.Dialer.ServiceLane()
	}
	return dial.Lane{}
}

// refuseLane ends the sessions of a user whose credential Redis no longer accepts.
func (s *Server) refuseLane(lane dial.Lane) {
	for _, one := range s.all() {
		one.mu.Lock()
		same := one.router.Lane.User == lane.User
		one.mu.Unlock()
		if same {
			one.kill("credential refused", true)
		}
	}
}
