package proxy

import (
	"bytes"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// allKeys runs KEYS (https://redis.io/docs/latest/commands/keys/) on every master. It uses pinned
// connections, because a reply as large as the database would delay all users of a shared link. It
// is a barrier in both directions. The bytes of the replies count as the session's output until
// they are sent.
func (s *session) allKeys(_ *command.Command, cmd resp.Command) bool {
	masters, ok := s.allMasters(len(cmd.Raw))
	if !ok || len(masters) == 0 {
		return ok && s.fail(call.ErrorUnserved)
	}
	if !s.barrier() {
		return false
	}
	s.out.Flush()
	parts, pins := make([]*call.Part, len(masters)), make([]*pin, len(masters))
	for i := range masters {
		pins[i] = &pin{session: s}
		parts[i] = call.FixedPart(bytes.Clone(cmd.Raw)).Via(pins[i])
	}
	ok = s.fanOut(parts, masters, len(cmd.Raw), merge.Lists) && s.barrier()
	for _, p := range pins {
		if !ok {
			p.abort() // its reply is not needed
		}
		p.release()
	}
	return ok
}
