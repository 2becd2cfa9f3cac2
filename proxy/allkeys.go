package proxy

import (
	"bytes"

	"leash/proxy/resp"
)

// allKeys runs KEYS (https://redis.io/docs/latest/commands/keys/) on every
// master, each on a connection of the session's own: its reply may be as large
// as the database and would hold up all who share a link. It is a barrier both
// ways. What has come counts as the session's output until it has been sent.
func (s *session) allKeys(_ *command, cmd resp.Command) bool {
	masters, ok := s.allMasters(len(cmd.Raw))
	if !ok || len(masters) == 0 {
		return ok && s.fail(msgSlotUnserved)
	}
	if !s.barrier() {
		return false
	}
	s.Flush()
	parts, pins := make([]*part, len(masters)), make([]*pin, len(masters))
	for i := range masters {
		pins[i] = &pin{session: s}
		parts[i] = &part{slot: anySlot, fixed: true, pin: pins[i]}
		parts[i].Request = bytes.Clone(cmd.Raw)
	}
	ok = s.fanOut(parts, masters, 0, len(cmd.Raw), mergeLists) && s.barrier()
	for _, p := range pins {
		if !ok {
			p.abort() // nobody waits for its reply
		}
		p.release()
	}
	return ok
}
