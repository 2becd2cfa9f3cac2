package proxy

import (
	"leash/lockcmd"
	"leash/proxy/command"
	"leash/proxy/ending"
	"leash/proxy/login"
	"leash/proxy/resp"
	"leash/proxy/subscribers"
)

func connectionHandlers() handlers {
	return handlers{
		"PING":   ready(ping),
		"ECHO":   ready(echo),
		"QUIT":   quit,
		"RESET":  reset,
		"HELLO":  onLogin(login.Hello),
		"AUTH":   onLogin(login.Auth),
		"SELECT": onLogin(login.Select),

		"CLIENT|MAINT_NOTIFICATIONS": maintNotifications,
	}
}

// onLogin makes a handler of a command by which a client says who it is.
func onLogin(run func(login.Caller, *command.Command, resp.Command) bool) handler {
	return func(s *session, c *command.Command, cmd resp.Command) bool { return run(s.login(), c, cmd) }
}

func ping(s *session, c *command.Command, cmd resp.Command) bool {
	switch {
	case len(cmd.Args) > 2:
		return s.router.WrongArity(c)
	case s.modes&modeSubscribed != 0:
		return s.router.Answer(subscribers.Pong(cmd.Args))
	case len(cmd.Args) == 2:
		s.scratch = resp.AppendBulk(s.scratch[:0], cmd.Args[1])
	default:
		s.scratch = append(s.scratch[:0], resp.Pong...)
	}
	return s.router.Answer(s.scratch)
}

func echo(s *session, _ *command.Command, cmd resp.Command) bool {
	s.scratch = resp.AppendBulk(s.scratch[:0], cmd.Args[1])
	return s.router.Answer(s.scratch)
}

func quit(s *session, _ *command.Command, _ resp.Command) bool {
	s.router.OK()
	s.end.Set(ending.Quit)
	return false
}

// reset puts the session into the state of a new one. It releases the session's locks.
func reset(s *session, c *command.Command, cmd resp.Command) bool {
	if !c.ArityOK(cmd.Args) {
		return s.router.WrongArity(c)
	}
	if !s.router.Barrier() {
		return false
	}
	s.out.Flush()
	s.tx.End()
	s.tracking.Stop()
	s.endMonitor()
	s.locks.Close(lockcmd.Release)
	clientSession{s}.SetName("")
	s.calls.UnmuteLater()
	s.move.Store(false)
	s.activity.noEvict.Store(false)
	s.subscriber.Load().Drop()
	lane := s.server.startLane()
	s.server.up.Nodes.Join(lane)
	s.ChangeLane(lane)
	if !s.entry().ByCertificate() {
		return false
	}
	return s.router.Answer([]byte("+RESET\r\n"))
}
