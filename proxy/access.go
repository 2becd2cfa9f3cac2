package proxy

import (
	"fmt"
	"strings"
	"time"

	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/subscribers"
	"leash/proxy/transaction"
)

// withoutAuth are the commands that Redis runs for a client that has not authenticated. Its command
// table marks them with the flag no-auth, and no user can be without the right to them.
var withoutAuth = map[string]bool{"auth": true, "hello": true, "quit": true, "reset": true}

const (
	// msgTooMany is Redis's error for a client beyond maxclients.
	msgTooMany = "ERR max number of clients reached"

	// Reasons for the end of a session because of a limit.
	userLimit    = "user limit"
	addressLimit = "address limit"

	// refusedPause is how long a client waits for the error after too many commands. Without it, a
	// client that sends them again at once would cost as much as if they were run.
	refusedPause = 100 * time.Millisecond
)

// permissions are what clients may not do at this Leash, whatever Redis permits.
type permissions struct {
	denied    command.Set     // nobody may run these
	adminOnly command.Set     // only admins may run these; empty: all may
	admins    map[string]bool // users
}

func permissionsOf(cfg *Config, t command.Table) (p permissions, err error) {
	if p.denied, err = t.Select(cfg.Deny); err != nil {
		return p, fmt.Errorf("--deny: %w", err)
	}
	for _, pattern := range cfg.Deny {
		if withoutAuth[strings.ToLower(pattern)] {
			pattern = strings.ToLower(pattern)
			return p, fmt.Errorf("--deny: %s cannot be denied, because every client may run it", pattern)
		}
	}
	if len(cfg.AllowAdmin) == 0 {
		return p, nil
	}
	if p.adminOnly, err = t.Select([]string{"@admin"}); err != nil {
		return p, fmt.Errorf("--allow-admin: %w", err)
	}
	p.admins = make(map[string]bool)
	for _, user := range cfg.AllowAdmin {
		p.admins[user] = true
	}
	return p, nil
}

// refusal returns the error for a user who may not run a command. It is empty if the user may.
func (p *permissions) refusal(user string, c *command.Command) string {
	why := ""
	switch {
	case p.denied.Has(c):
		why = "Leash denies it to everybody"
	case p.adminOnly.Has(c) && !p.admins[user]:
		why = "only the users of --allow-admin may"
	default:
		return ""
	}
	return "NOPERM this user has no permissions to run the '" + c.Name + "' command: " + why
}

// modes are the states of a session in which commands are handled differently. Only the loop's
// goroutine uses them.
type modes uint8

const (
	modeSkip  modes = 1 << iota // CLIENT REPLY SKIP: the next command is not answered
	modeMulti                   // between MULTI and EXEC
	// In RESP2, few commands are allowed, because a client could not distinguish replies from
	// messages.
	modeSubscribed
	modeRestricted // Leash refuses commands that Redis may permit (see restricted)
)

// inMode handles a command according to the session's modes. c is nil for a command in no table.
// handled is false if the modes do not concern the command. ok is false when the session ends.
func (s *session) inMode(c *command.Command, cmd resp.Command) (handled, ok bool) {
	if s.modes&modeSkip != 0 {
		s.modes &^= modeSkip
		return true, s.calls.MuteOnce(func() bool { return s.dispatch(cmd) && s.tx.AwaitQueued() })
	}
	if s.modes&modeRestricted != 0 {
		if handled, ok := s.restricted(c, cmd); handled {
			return true, ok
		}
	}
	switch {
	case s.modes&modeMulti != 0:
		return true, s.queue(c, cmd)
	case s.modes&modeSubscribed == 0:
		return false, true
	}
	refusal := subscribers.Refusal(c, cmd)
	switch {
	case refusal == "":
		return false, true
	case !s.router.Ready(c, cmd):
		return true, true
	case c.Name == "exec":
		s.tx.End() // an EXEC that is refused ends WATCH too
	}
	return true, s.router.Fail(refusal)
}

// refreshAccess applies what changes when the session gets another user: Redis's tighter limits
// until the client has authenticated, and the checks of restricted.
func (s *session) refreshAccess() {
	entered, p := s.router.Authenticated(), &s.server.permissions
	s.input.parser.Limits.Unauthenticated = !entered
	s.modes &^= modeRestricted
	if !entered && s.server.cfg.RequireAuth || !p.denied.Empty() || !p.adminOnly.Empty() || s.server.users != nil ||
		s.server.memory.most > 0 {
		s.modes |= modeRestricted
	}
	switch {
	case entered:
		s.activity.strangerSince.Store(0)
	case s.activity.strangerSince.Load() == 0:
		s.activity.strangerSince.Store(time.Now().UnixNano())
	}
}

// restricted answers a command that Leash does not permit, though Redis may. c is nil for a command
// in no table.
func (s *session) restricted(c *command.Command, cmd resp.Command) (handled, ok bool) {
	switch {
	case c != nil && withoutAuth[c.Name]:
		return false, true
	case c != nil && !s.router.Authenticated():
		return true, s.demandAuth(c, cmd)
	}
	if s.server.users != nil && s.router.Authenticated() {
		if handled, ok := s.pace(c); handled {
			return true, ok
		}
	}
	if s.refusesMemory(c, cmd) {
		return true, s.forbid(c, msgMemory)
	}
	if c == nil {
		return false, true
	}
	if refusal := s.server.permissions.refusal(s.router.Lane.ACLUser(), c); refusal != "" {
		return true, s.forbid(c, refusal)
	}
	return false, true
}

// enterLimits counts a new client at its address and its user. It returns false when the session
// ends, because one of them has too many clients.
func (s *session) enterLimits() bool {
	if !s.limits.AdmitFrom(s.conn.RemoteAddr()) {
		s.end.Refuse(addressLimit)
		s.router.Fail(msgTooMany)
		return false
	}
	return !s.router.Authenticated() || s.admit()
}

// admit counts the client at its present user. It returns false when the session ends, because the
// user has too many clients.
func (s *session) admit() bool {
	refusal := s.limits.Admit(s.router.Lane.User)
	if refusal != "" {
		s.end.Refuse(userLimit)
		s.router.Fail(refusal)
	}
	return refusal == ""
}

// pace delays a command, or refuses it, if its user sends too many a second. c is nil for a command
// in no table.
func (s *session) pace(c *command.Command) (handled, ok bool) {
	if !s.admit() {
		return true, false
	}
	wait, refusal := s.limits.Pace()
	if refusal != "" {
		return true, s.blocking().Delay(refusedPause, nil) && s.forbid(c, refusal)
	}
	return wait > 0 && !s.blocking().Delay(wait, nil), false
}

// awaitUnpaused waits until no CLIENT PAUSE delays the command. It delays only a command that Redis
// or lockcmd would run, and none that would be refused. It returns false when the session ends
// first. The command must then not run. c is nil for an unknown command.
func (s *session) awaitUnpaused(c *command.Command, cmd resp.Command) bool {
	if c == nil || !s.router.Authenticated() || !c.ArityOK(cmd.Args) {
		return true
	}
	writes := c.MayPropagate() || c.Name == "exec" && s.tx.Propagates()
	for {
		p := s.server.pauses.Delaying(writes)
		if p == nil {
			return true
		}
		if !s.blocking().Delay(time.Until(p.Until), p.Changed) {
			return false
		}
	}
}

// forbid answers a command with an error. A transaction then executes nothing. c is nil for a
// command in no table.
func (s *session) forbid(c *command.Command, refusal string) bool {
	inMulti, isExec := s.modes&modeMulti != 0, c != nil && c.Name == "exec"
	if isExec {
		refusal = command.ExecRefused(refusal)
	}
	if inMulti {
		return s.tx.Refuse(isExec, refusal)
	}
	return s.router.Fail(refusal)
}

// demandAuth answers a command of a client that has not authenticated. It makes the checks first
// that Redis makes before this one.
func (s *session) demandAuth(c *command.Command, cmd resp.Command) bool {
	switch {
	case c.Subs != nil && len(cmd.Args) > 1:
		return s.router.Fail(command.UnknownSub(c, cmd.Args[1]))
	case !c.ArityOK(cmd.Args) && c.Name == "exec":
		return s.router.Fail(transaction.ExecArity)
	case !c.ArityOK(cmd.Args):
		return s.router.WrongArity(c)
	case c.Name == "exec":
		return s.router.Fail(command.ExecRefused(command.NoAuth))
	}
	return s.router.Fail(command.NoAuth)
}
