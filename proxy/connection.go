package proxy

import (
	"bytes"
	"fmt"

	"leash/lockcmd"
	"leash/proxy/command"
	"leash/proxy/resp"
)

// Redis's own messages for commands that Leash answers.
const (
	msgHelloNoAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO " +
		"<proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol " +
		"version at the same time"
	msgNoProto      = "NOPROTO unsupported protocol version"
	msgProtoNumber  = "ERR Protocol version is not an integer or out of range"
	msgNoSelect     = "ERR SELECT is not allowed in cluster mode"
	msgBadName      = "ERR Client names cannot contain spaces, newlines or special characters."
	msgUnknownField = "ERR Unrecognized option '%s'"
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

		"CLIENT|ID":      (*session).clientID,
		"CLIENT|SETNAME": (*session).setName,
		"CLIENT|GETNAME": (*session).getName,
		"CLIENT|SETINFO": (*session).setInfo,

		"CLIENT|MAINT_NOTIFICATIONS": (*session).maintNotifications,
	}
}

func (s *session) ping(c *command.Command, cmd resp.Command) bool {
	switch {
	case !s.router.Ready(c, cmd):
		return true
	case len(cmd.Args) > 2:
		return s.router.WrongArity(c)
	case s.modes&modeSubscribed != 0:
		return s.pong(cmd)
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
	s.cause = endQuit
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
	s.rename("")
	s.unmuteBehind()
	s.server.setMoves(s, false)
	s.activity.noEvict.Store(false)
	s.dropSubscriptions()
	lane := s.server.startLane()
	s.server.up.Join(lane)
	s.changeLane(lane)
	if !s.enterByCertificate() {
		return false
	}
	return s.answer([]byte("+RESET\r\n"))
}

func (s *session) clientID(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) {
		return true
	}
	s.scratch = resp.AppendInt(s.scratch[:0], s.id)
	return s.answer(s.scratch)
}

func (s *session) setName(c *command.Command, cmd resp.Command) bool {
	switch {
	case !s.router.Ready(c, cmd):
		return true
	case !printable(cmd.Args[2]):
		return s.fail(msgBadName)
	}
	s.rename(string(cmd.Args[2]))
	return s.ok()
}

func (s *session) getName(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) {
		return true
	}
	name := ""
	s.label(func(l *labels) { name = l.name })
	switch {
	case name != "":
		s.scratch = resp.AppendBulk(s.scratch[:0], name)
		return s.answer(s.scratch)
	case s.router.Lane.RESP3:
		return s.answer([]byte(resp.Null))
	}
	return s.answer([]byte(resp.NilBulk))
}

// setInfo stores what client libraries report about themselves
// (https://redis.io/docs/latest/commands/client-setinfo/). It works also with a Redis that lacks
// this command.
func (s *session) setInfo(c *command.Command, cmd resp.Command) bool {
	switch {
	case len(cmd.Args) != 4:
		return s.router.WrongArity(c)
	case !s.router.Authenticated():
		return s.fail(command.NoAuth)
	case !resp.IsWord(cmd.Args[2], "LIB-NAME") && !resp.IsWord(cmd.Args[2], "LIB-VER"):
		return s.fail(fmt.Sprintf(msgUnknownField, cmd.Args[2]))
	case !printable(cmd.Args[3]):
		return s.fail("ERR " + string(bytes.ToLower(cmd.Args[2])) +
			" cannot contain spaces, newlines or special characters.")
	}
	s.label(func(l *labels) {
		if resp.IsWord(cmd.Args[2], "LIB-NAME") {
			l.libName = string(cmd.Args[3])
		} else {
			l.libVersion = string(cmd.Args[3])
		}
	})
	return s.ok()
}

// labels are what a client has told about itself.
type labels struct {
	name                string // CLIENT SETNAME
	libName, libVersion string // CLIENT SETINFO
}

func (s *session) rename(name string) {
	s.label(func(l *labels) { l.name = name })
	if carrier := s.carrier(); carrier != nil {
		carrier.Identify(s.identity())
	}
}

// label reads or changes the session's labels.
func (s *session) label(use func(*labels)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.labels == nil {
		s.labels = new(labels)
	}
	use(s.labels)
}

// printable reports whether b has only the bytes '!' to '~'. Redis demands this of names.
func printable(b []byte) bool {
	for _, c := range b {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}
