package proxy

import (
	"leash/proxy/command"
	"leash/proxy/ending"
	"leash/proxy/resp"
)

// NotReady is the reply to clients before the upstream is known.
const NotReady = "-UPSTREAMDOWN Leash waits for Redis, the command was not executed\r\n"

// unknown answers a command that is in no table, in Redis's words. Leash does not send it to Redis.
// The server may know it under another name or in a newer version, and it may do anything to a
// shared link. A word of HTTP ends the session, as in Redis. A web page could otherwise use a
// browser to send commands to this port.
func (s *session) unknown(cmd resp.Command) bool {
	if command.IsHTTP(cmd.Args[0]) {
		s.server.log.Warn("possible attack: a client sent an HTTP request, closing it", "client", s.conn.RemoteAddr())
		s.end.Set(ending.Refused)
		return false
	}
	return s.fail(command.Unknown(cmd.Args))
}
