package proxy

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"leash/lockcmd/view"
	"leash/proxy/clients"
	"leash/proxy/command"
	"leash/proxy/ending"
	"leash/proxy/login"
	"leash/proxy/operators"
	"leash/proxy/resp"
	"leash/proxy/route"
)

func clientHandlers() handlers {
	all := family("CLIENT|", clients.Commands(), func(run clients.Run) handler {
		return ready(func(s *session, _ *command.Command, cmd resp.Command) bool {
			s.updateDescription()
			return run(s.caller(), cmd)
		})
	})
	all["CLIENT|NO-TOUCH"], all["CLIENT|REPLY"] = noTouch, ready(clientReply)
	all["CLIENT|SETINFO"] = func(s *session, c *command.Command, cmd resp.Command) bool {
		return clients.SetInfo(s.caller(), c, cmd)
	}
	return all
}

func (s *session) caller() clients.Caller {
	return clients.Caller{Session: clientSession{s}, Router: &s.router, Pauses: &s.server.pauses}
}

func noTouch(s *session, c *command.Command, cmd resp.Command) bool {
	if len(cmd.Args) == 3 && s.router.Authenticated() && resp.IsWord(cmd.Args[2], "OFF") {
		return s.router.OK()
	}
	return s.router.Refuse(c, cmd)
}

// clientReply answers CLIENT REPLY ON | OFF | SKIP
// (https://redis.io/docs/latest/commands/client-reply/). Leash does not send it to Redis. It
// discards the replies itself. Messages of channels are still sent.
func clientReply(s *session, _ *command.Command, cmd resp.Command) bool {
	switch mode := cmd.Args[2]; {
	case resp.IsWord(mode, "ON"):
		s.calls.Unmute()
		return s.router.OK()
	case resp.IsWord(mode, "OFF"):
		s.calls.Mute()
		return true
	case resp.IsWord(mode, "SKIP"):
		if !s.calls.MutedUntilUnmute() {
			s.modes |= modeSkip
		}
		return true
	}
	return s.router.Fail(command.SyntaxError)
}

func (s *Server) sortedSessions() []*session {
	all := s.all()
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	return all
}

func (s *Server) sessionOf(id int64) *session {
	for _, one := range s.all() {
		if one.id == id {
			return one
		}
	}
	return nil
}

// clientSession is a session as a login sees it, and the CLIENT commands of any client.
type clientSession struct{ *session }

var (
	_ clients.Session = clientSession{}
	_ login.Session   = clientSession{}
)

// Admit implements login.Session.
func (s clientSession) Admit(user string) (refusal string) { return s.limits.Admit(user) }

// SetName implements login.Session.
func (s clientSession) SetName(name string) { clients.Rename(s, name) }

// Clients implements clients.Session.
func (s clientSession) Clients() (all []clients.Client) {
	for _, one := range s.server.sortedSessions() {
		all = append(all, clientSession{one})
	}
	return all
}

// Client implements clients.Session.
func (s clientSession) Client(id int64) clients.Client {
	if one := s.server.sessionOf(id); one != nil {
		return clientSession{one}
	}
	return nil
}

// Labels implements clients.Session. It may be called from any goroutine.
func (s *session) Labels() clients.Labels {
	if l := s.activity.labels.Load(); l != nil {
		return *l
	}
	return clients.Labels{}
}

// SetLabels implements clients.Session.
func (s clientSession) SetLabels(l clients.Labels) {
	s.activity.labels.Store(&l)
	s.locks.Identify()
}

// SetNoEvict implements clients.Session.
func (s clientSession) SetNoEvict(on bool) { s.activity.noEvict.Store(on) }

// EndKilled implements clients.Session.
func (s clientSession) EndKilled() { s.end.Set(ending.Killed) }

// Kill implements clients.Client.
func (s clientSession) Kill() bool {
	if s.end.IsCut() {
		return false
	}
	s.kill("client kill", true)
	return true
}

// Unblock implements clients.Client.
func (s clientSession) Unblock(withError bool) bool {
	carrier := s.locks.Carrier()
	return carrier != nil && carrier.Unblock(withError)
}

// Pins implements clients.Client.
func (s clientSession) Pins() []*route.Pin {
	if b := s.blocked.Load(); b != nil {
		return b.Pins
	}
	return nil
}

// Describe implements clients.Client.
func (s clientSession) Describe() *clients.Description {
	d := &clients.Description{
		ID: s.id, Addr: clients.Endpoint(s.conn.RemoteAddr(), s.conn.LocalAddr()),
		LocalAddr: clients.Endpoint(s.conn.LocalAddr(), nil), Descriptor: s.conn.Descriptor(), Labels: s.Labels(),
		Age:   time.Since(s.activity.since),
		Idle:  s.idle(),
		Multi: int(s.activity.queued.Load()) - 1, Command: "NULL", Protocol: 2,
		Unix: s.conn.LocalAddr().Network() == "unix", Blocked: s.isBlocked(),
		Monitoring: s.monitoring.Load() != nil, NoEvict: s.activity.noEvict.Load(),
		Tracking: s.tracking.View(), Holds: s.locks.Holds(),
	}
	if c := s.activity.command.Load(); c != nil {
		d.Command = c.Name
	}
	d.Sub, d.PSub, d.SSub = s.subscriber.Load().Tally()
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Requests, d.Output = s.calls.SizesLocked()
	d.DB, d.User = s.router.Lane.DB, s.router.Lane.ACLUser()
	if s.router.Lane.RESP3 {
		d.Protocol = 3
	}
	return d
}

// idle is the time since the last bytes came, as the clock of the server shows it.
func (s *session) idle() time.Duration {
	return time.Duration(s.server.clock.Load()-s.activity.seen.Load()) * time.Second
}

// activity is what CLIENT LIST shows of a session.
type activity struct {
	command     atomic.Pointer[command.Command] // the last one
	seen        atomic.Int64                    // when the last bytes came, by Server.clock
	queued      atomic.Int64                    // commands since MULTI, and MULTI itself; 0 outside a transaction
	queuedBytes atomic.Int64                    // of these commands
	noEvict     atomic.Bool                     // CLIENT NO-EVICT
	labels      atomic.Pointer[clients.Labels]  // nil until used; never changed in place
	// Unix nanoseconds from which on the client should have authenticated; 0 if it has, or need not
	strangerSince atomic.Int64
	since         time.Time // when the client came; not changed later
}

// updateDescription stores what CLIENT LIST shows to other goroutines: the session's current
// command, the time of its last bytes, and the length of its transaction. It is not called for
// every command. A call before each wait of the session's loop is enough.
func (s *session) updateDescription() {
	if s.router.Command != nil && s.router.Command != s.activity.command.Load() { // a load costs less than a store
		s.activity.command.Store(s.router.Command)
	}
	if now := s.server.clock.Load(); now != s.activity.seen.Load() {
		s.activity.seen.Store(now)
	}
	if s.tx != nil || s.activity.queued.Load() > 0 {
		s.activity.queued.Store(s.tx.Len())
		s.activity.queuedBytes.Store(s.tx.Size())
	}
}

// FindClients lists the clients that fit: count of them at most, after the first ones. The oldest
// comes first. found is how many fit in all. It visits every client, and does not block. Safe for
// concurrent use.
func (s *Server) FindClients(fits func(*clients.Description) bool, first, count int) (found int,
	shown []*clients.Description) {
	for _, one := range s.sortedSessions() {
		d := clientSession{one}.Describe()
		if !fits(d) {
			continue
		}
		if found >= first && len(shown) < count {
			shown = append(shown, d)
		}
		found++
	}
	return found, shown
}

// KillClient ends the connection of a client, like CLIENT KILL ID. Its locks expire (rule R28). It
// returns false if there is no such client. It does not block.
func (s *Server) KillClient(id int64) bool {
	one := s.sessionOf(id)
	return one != nil && clientSession{one}.Kill()
}

// Waiters are the clients whose lock command waits, the oldest client first. It visits every
// client, and does not block. Safe for concurrent use.
func (s *Server) Waiters() (all []operators.Waiter) {
	for _, one := range s.sortedSessions() {
		if c := one.locks.Carrier(); c != nil {
			if v, ok := view.Waiting(&c.Carrier); ok {
				all = append(all, operators.Waiter{Client: one.clientName(), ClientID: one.id, Waiter: v})
			}
		}
	}
	return all
}
