package proxy

import (
	"bytes"

	"leash/proxy/resp"
)

// keyspaceTreatments are the commands over many keys or all of them.
func keyspaceTreatments() treatments {
	return treatments{
		"MGET": {(*session).split, splitUp, ""}, "MSET": {(*session).split, splitUp, ""},
		"DEL": {(*session).split, splitUp, ""}, "UNLINK": {(*session).split, splitUp, ""},
		"EXISTS": {(*session).split, splitUp, ""}, "TOUCH": {(*session).split, splitUp, ""},

		"DBSIZE": {(*session).dbSize, everyNode, ""},

		"MIGRATE":        {(*session).refuse, refused, "its addresses are those of servers behind Leash"},
		"RESTORE-ASKING": {(*session).refuse, refused, "for the nodes of a cluster among themselves"},
	}
}

// everywhere sends a command to every master and merges the replies.
func (s *session) everywhere(cmd resp.Command, m merge) bool {
	if !s.adoptTopology() || !s.admitCall(len(cmd.Raw)) {
		return false
	}
	masters := s.topology.Masters()
	if len(masters) == 0 {
		return s.fail(msgSlotUnserved)
	}
	parts := make([]*part, len(masters))
	for i, n := range masters {
		if !s.awaitRoom(n) {
			return false
		}
		parts[i] = &part{slot: anySlot, fixed: true}
		parts[i].Request = bytes.Clone(cmd.Raw)
	}
	return s.fan(parts, masters, 0, len(cmd.Raw), m)
}

func (s *session) dbSize(c *command, cmd resp.Command) bool {
	if !c.arityOK(cmd.Args) {
		return s.wrongArity(c)
	}
	return s.everywhere(cmd, mergeSum)
}
