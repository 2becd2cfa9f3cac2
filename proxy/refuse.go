package proxy

import (
	"strings"

	"leash/proxy/command"
	"leash/proxy/resp"
)

// NotReady is the reply to clients before the upstream is known.
const NotReady = "-UPSTREAMDOWN Leash waits for Redis, the command was not executed\r\n"

// refuse answers a command that Leash does not run, because it would harm other clients.
func (s *session) refuse(c *command.Command, cmd resp.Command) bool {
	switch {
	case c.Subs != nil && len(cmd.Args) > 1:
		return s.unknownSub(c, cmd)
	case !c.ArityOK(cmd.Args):
		return s.router.WrongArity(c)
	case !s.router.Ready(c, cmd):
		return true
	}
	return s.fail(c.Refusal())
}

// unknown answers a command that is in no table, in Redis's words. Leash does not send it to Redis.
// The server may know it under another name or in a newer version, and it may do anything to a
// shared link. A word of HTTP ends the session, as in Redis. A web page could otherwise use a
// browser to send commands to this port.
func (s *session) unknown(cmd resp.Command) bool {
	if command.IsHTTP(cmd.Args[0]) {
		s.server.log.Warn("possible attack: a client sent an HTTP request, closing it", "client", s.conn.RemoteAddr())
		s.cause = endRefused
		return false
	}
	b := append([]byte("ERR unknown command '"), command.Quoted(cmd.Args[0], command.MaxQuoted)...)
	b = append(b, "', with args beginning with: "...)
	start := len(b)
	for _, a := range cmd.Args[1:] {
		left := command.MaxQuoted - (len(b) - start)
		if left <= 0 {
			break
		}
		b = append(b, '\'')
		b = append(b, command.Quoted(a, left)...)
		b = append(b, "' "...)
	}
	return s.fail(string(b))
}

// unknownSub answers a subcommand that is not in the table.
func (s *session) unknownSub(c *command.Command, cmd resp.Command) bool {
	return s.fail("ERR unknown subcommand '" + string(command.Quoted(cmd.Args[1], command.MaxQuoted)) + "'. Try " +
		strings.ToUpper(c.Name) + " HELP.")
}
