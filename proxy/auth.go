package proxy

import (
	"leash/internal/limits"
	"leash/proxy/command"
	"leash/proxy/dial"
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// auth answers AUTH [user] password. Redis checks the password on a connection of its own. If Redis
// accepts it, the session moves to the user's lane.
func (s *session) auth(c *command.Command, cmd resp.Command) bool {
	switch len(cmd.Args) {
	case 2:
		return s.authenticate(cmd.Raw, s.router.Lane.As("default"), cmd.Args[1], nil)
	case 3:
		return s.authenticate(cmd.Raw, s.router.Lane.As(string(cmd.Args[1])), cmd.Args[2], nil)
	case 1:
		return s.router.WrongArity(c)
	}
	return s.fail(command.SyntaxError)
}

// authenticate moves the session to a lane if Redis accepts the password of the lane's user. It
// answers with Redis's reply to command. If Redis accepts and accepted is not nil, accepted answers
// instead.
func (s *session) authenticate(command []byte, lane dial.Lane, password []byte, accepted func()) bool {
	if !s.router.Barrier() {
		return false
	}
	if s.server.cfg.RequireAuth && lane.User == "default" {
		// Redis accepts any password for a default user without one, except in this form
		command = resp.AppendCommand(nil, []byte("AUTH"), password)
	}
	s.server.up.Join(lane)
	reply, ok, err := s.server.up.Authenticate(s.ctx, command, lane.User, password)
	if ok && !s.admit(lane.User) {
		s.server.up.Leave(lane)
		return s.fail(s.server.limitText(lane.User, limits.Clients))
	}
	if ok {
		s.changeLane(lane)
		if accepted != nil {
			accepted()
			return true
		}
		return s.answer(reply)
	}
	s.server.up.Leave(lane)
	if err != nil {
		s.server.log.Warn("cannot check a password with redis", "err", err)
		return s.fail(merge.NotSent)
	}
	return s.answer(reply)
}
