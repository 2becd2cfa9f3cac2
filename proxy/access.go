package proxy

import (
	"net"
	"time"

	"leash/proxy/command"
	"leash/proxy/resp"
)

// msgProtected is the error of Config.ProtectedMode. It begins as Redis's own.
const msgProtected = "DENIED Leash is running in protected mode because protected mode is enabled and clients " +
	"need no password. In this mode connections are only accepted from the loopback interface. To connect from other " +
	"computers, do one of these: 1) set a password for the default user of Redis; 2) start Leash with " +
	"--require-auth; 3) start Leash without --protected-mode, if only friends can reach its port."

// protectedMode is the reason for the end of a client that protected mode refuses.
const protectedMode = "protected mode"

// entryWarnInterval is the time between two warnings about clients that are refused. Others are
// logged at level debug.
const entryWarnInterval = time.Minute

// withoutAuth are the commands that Redis runs for a client that has not authenticated. Its command
// table marks them with the flag no-auth, and no user can be without the right to them.
var withoutAuth = map[string]bool{"auth": true, "hello": true, "quit": true, "reset": true}

// authenticated reports whether this session's commands are served. Those of a client without a
// user are, if Redis serves them and Config.RequireAuth is off.
func (s *session) authenticated() bool {
	return s.router.Lane.User != "" || !s.server.up.AuthRequired() && !s.server.cfg.RequireAuth
}

// refreshAccess applies what changes when the session gets another user: Redis's tighter limits
// until the client has authenticated, and the checks of restricted.
func (s *session) refreshAccess() {
	entered := s.authenticated()
	s.input.parser.Limits.Unauthenticated = !entered
	s.modes &^= modeRestricted
	if !entered && s.server.cfg.RequireAuth {
		s.modes |= modeRestricted
	}
}

// restricted answers a command that Leash does not permit, though Redis may. It makes the checks
// that come before it in Redis first. c is nil for a command in no table.
func (s *session) restricted(c *command.Command, cmd resp.Command) (handled, ok bool) {
	switch {
	case c == nil, withoutAuth[c.Name], s.authenticated():
		return false, true
	case c.Subs != nil && len(cmd.Args) > 1:
		return true, s.unknownSub(c, cmd)
	case !c.ArityOK(cmd.Args) && c.Name == "exec":
		return true, s.fail(msgExecArity)
	case !c.ArityOK(cmd.Args):
		return true, s.wrongArity(c)
	case c.Name == "exec":
		return true, s.fail("EXECABORT Transaction discarded because of: " + msgNoAuth)
	}
	return true, s.fail(msgNoAuth)
}

// enterProtected refuses a client of another machine that is served without having proved who it
// is. It returns false when the session ends.
func (s *session) enterProtected() bool {
	if !s.server.cfg.ProtectedMode || isLocal(s.conn.RemoteAddr()) || s.isIdentified() {
		return true
	}
	log := s.server.log.Debug
	if s.server.protectedWarnLimiter.due(time.Now(), entryWarnInterval) {
		log = s.server.log.Warn
	}
	log("protected mode refuses a client of another machine", "client", s.conn.RemoteAddr())
	s.refuseEntry(protectedMode, msgProtected)
	return false
}

// isIdentified reports whether nobody can run commands in this session without a password or a
// certificate.
func (s *session) isIdentified() bool {
	switch {
	case s.conn.Secure() && len(s.conn.TLSState().VerifiedChains) > 0:
		return true
	case s.server.cfg.TrustClients:
		return false
	}
	return s.router.Lane.User != "" || !s.authenticated()
}

// isLocal reports whether the client is on this machine.
func isLocal(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// refuseEntry answers a new client with an error and ends its session for a reason. It waits until
// the client has sent something, but at most Config.HeaderTimeout.
func (s *session) refuseEntry(reason, message string) {
	s.mu.Lock()
	if s.killedBy == "" {
		s.killedBy = reason
	}
	s.mu.Unlock()
	s.cause = endRefused
	s.fail(message)
	s.readRefused()
}
