package proxy

import (
	"bytes"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// allKeys runs KEYS (https://redis.io/docs/latest/commands/keys/) on every master. It uses pinned
// connections, because a reply as large as the database would delay all users of a shared link. It
// is a barrier in both directions. The bytes of the replies count as the session's output until
// they are sent.
func (s *session) allKeys(_ *command.Command, cmd resp.Command) bool {
	masters, ok := s.router.AllMasters(len(cmd.Raw))
	if !ok || len(masters) == 0 {
		return ok && s.fail(call.ErrorUnserved)
	}
	if !s.router.Barrier() {
		return false
	}
	s.out.Flush()
	parts, pins := make([]*call.Part, len(masters)), make([]*route.Pin, len(masters))
	for i := range masters {
		pins[i] = s.router.Pin()
		parts[i] = call.FixedPart(bytes.Clone(cmd.Raw)).Via(pins[i])
	}
	ok = s.router.FanOut(parts, masters, len(cmd.Raw), merge.Lists) && s.router.Barrier()
	for _, p := range pins {
		if !ok {
			p.Abort() // its reply is not needed
		}
		p.Release()
	}
	return ok
}
