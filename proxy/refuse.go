package proxy

import (
	"bytes"
	"strings"

	"leash/proxy/resp"
)

// isHelp reports whether a subcommand only explains its command.
func isHelp(name string) bool { return strings.HasSuffix(name, "|help") }

func (s *session) wrongArity(c *command) bool {
	return s.fail("ERR wrong number of arguments for '" + c.name + "' command")
}

// ready checks what Redis checks before it runs a command that is answered
// here; when it is false the answer has been given.
func (s *session) ready(c *command, cmd resp.Command) bool {
	switch {
	case !c.arityOK(cmd.Args):
		s.wrongArity(c)
	case !s.authenticated():
		s.fail(msgNoAuth)
	default:
		return s.mayRun(c, cmd)
	}
	return false
}

// mayRun checks the user's right to a command that is answered here; when it is
// false the answer has been given.
func (s *session) mayRun(c *command, cmd resp.Command) bool {
	refusal, err := s.server.up.Refusal(s.ctx, s.lane, c.name, cmd.Args)
	switch {
	case err != nil:
		s.server.log.Warn("cannot check the rights of a user", "user", s.lane.User, "err", err)
		s.fail(msgUpstreamDown)
	case refusal != "" && c.name == "exec":
		s.fail("EXECABORT Transaction discarded because of: " + refusal)
	case refusal != "":
		s.fail(refusal)
	default:
		return true
	}
	return false
}

// refusalOf returns the error for arguments that are refused although the command is not. It is
// empty if there is none.
func (c *command) refusalOf(args [][]byte) string {
	switch c.name {
	case "config|set":
		return configRefusal(args)
	case "debug":
		return debugRefusal(args)
	}
	return ""
}

// refuse answers a command that Leash cannot run without harm to others.
func (s *session) refuse(c *command, cmd resp.Command) bool {
	switch {
	case c.subs != nil && len(cmd.Args) > 1:
		return s.unknownSub(c, cmd)
	case !c.arityOK(cmd.Args):
		return s.wrongArity(c)
	case !s.ready(c, cmd):
		return true
	}
	return s.fail(c.refusal())
}

// reasonUnknown is why a command is refused that the upstream has and Leash
// does not know: of a module, or newer than Leash, and not only about data.
const reasonUnknown = "Leash does not know what it does to a connection that other clients share"

// refusal is the reason why a command is refused.
func (c *command) refusal() string {
	reason := c.note
	if c.class != refused || reason == "" {
		reason = reasonUnknown
	}
	return "ERR '" + c.name + "' is refused by leash: " + reason
}

// isHTTP reports whether a command is a line of HTTP that a browser cannot leave out.
func isHTTP(name []byte) bool { return isWord(name, "POST") || isWord(name, "HOST:") }

// maxQuoted is how much of a name or of arguments Redis repeats in an error.
const maxQuoted = 128

// unknown answers a command that is in no table, in Redis's words. The command is not sent to
// Redis: the server may know it under another name or since a newer version, and it may do anything
// to a shared link. A word of HTTP ends the session, as in Redis, because a browser may send it for
// someone who cannot reach this port.
func (s *session) unknown(cmd resp.Command) bool {
	if isHTTP(cmd.Args[0]) {
		s.server.log.Warn("possible attack: a client sent an HTTP request, closing it", "client", s.conn.RemoteAddr())
		s.cause = endRefused
		return false
	}
	b := append([]byte("ERR unknown command '"), quoted(cmd.Args[0], maxQuoted)...)
	b = append(b, "', with args beginning with: "...)
	start := len(b)
	for _, a := range cmd.Args[1:] {
		left := maxQuoted - (len(b) - start)
		if left <= 0 {
			break
		}
		b = append(b, '\'')
		b = append(b, quoted(a, left)...)
		b = append(b, "' "...)
	}
	return s.fail(string(b))
}

// quoted is an argument as C's printf shows it: up to a NUL, and no longer
// than limit.
func quoted(arg []byte, limit int) []byte {
	if i := bytes.IndexByte(arg, 0); i >= 0 {
		arg = arg[:i]
	}
	return arg[:min(len(arg), limit)]
}

// unknownSub answers a subcommand that the table does not have.
func (s *session) unknownSub(c *command, cmd resp.Command) bool {
	return s.fail("ERR unknown subcommand '" + string(quoted(cmd.Args[1], maxQuoted)) + "'. Try " + strings.ToUpper(c.name) + " HELP.")
}
