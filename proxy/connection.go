package proxy

import (
	"leash/lockcmd"
	"leash/proxy/clients"
	"leash/proxy/command"
	"leash/proxy/ending"
	"leash/proxy/resp"
	"leash/proxy/subscribers"
)

// Redis's own messages for commands that Leash answers.
const (
	msgHelloNoAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO " +
		"<proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol " +
		"version at the same time"
	msgNoProto     = "NOPROTO unsupported protocol version"
	msgProtoNumber = "ERR Protocol version is not an integer or out of range"
	msgNoSelect    = "ERR SELECT is not allowed in cluster mode"
)

// connectionHandlers are the commands about the connection itself.
func connectionHandlers() handlers {
	return handlers{
		"PING":   (*session).ping,
		"ECHO":   (*session).echo,
		"QUIT":   (*session).quit,
		"RESET":  (*session).reset,
		"HELLO":  (*session).hello,
		"AUTH":   (*session).auth,
		"SELECT": (*session).selectDB,
	}
}

func (s *session) ping(c *command.Command, cmd resp.Command) bool {
	switch {
	case !s.router.Ready(c, cmd):
		return true
	case len(cmd.Args) > 2:
		return s.router.WrongArity(c)
	case s.modes&modeSubscribed != 0:
		return s.answer(subscribers.Pong(cmd.Args))
	case len(cmd.Args) == 2:
		s.scratch = resp.AppendBulk(s.scratch[:0], cmd.Args[1])
	default:
		s.scratch = append(s.scratch[:0], resp.Pong...)
	}
	return s.answer(s.scratch)
}

func (s *session) echo(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) {
		return true
	}
	s.scratch = resp.AppendBulk(s.scratch[:0], cmd.Args[1])
	return s.answer(s.scratch)
}

func (s *session) ok() bool { return s.answer([]byte(resp.OK)) }

func (s *session) quit(*command.Command, resp.Command) bool {
	s.ok()
	s.end.Set(ending.Quit)
	return false
}

// reset puts the session into the state of a new one. It releases the session's locks.
func (s *session) reset(c *command.Command, cmd resp.Command) bool {
	if !c.ArityOK(cmd.Args) {
		return s.router.WrongArity(c)
	}
	if !s.router.Barrier() {
		return false
	}
	s.out.Flush()
	s.tx.End()
	s.tracking.Load().Stop()
	s.endMonitor()
	s.endCarrier(lockcmd.Release)
	clients.Rename((*owner)(s), "")
	s.unmuteBehind()
	s.activity.noEvict.Store(false)
	s.subscriber.Load().Drop()
	lane := s.server.startLane()
	s.server.up.Join(lane)
	s.changeLane(lane)
	if !s.enterByCertificate() {
		return false
	}
	return s.answer([]byte("+RESET\r\n"))
}
