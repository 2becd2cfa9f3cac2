package proxy

import (
	"bytes"

	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// keyspaceTreatments are the commands over many keys or all of them.
func keyspaceTreatments() treatments {
	return treatments{
		"MGET": {(*session).split, splitUp, ""}, "MSET": {(*session).split, splitUp, ""},
		"DEL": {(*session).split, splitUp, ""}, "UNLINK": {(*session).split, splitUp, ""},
		"EXISTS": {(*session).split, splitUp, ""}, "TOUCH": {(*session).split, splitUp, ""},

		"DBSIZE": {(*session).dbSize, everyNode, ""},
		"XREAD":  {(*session).streamRead, relayed, ""}, "XREADGROUP": {(*session).streamRead, relayed, ""},

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

// streamRead relays XREAD and XREADGROUP unless they may block.
func (s *session) streamRead(c *command, cmd resp.Command) bool {
	streams, blocks := parseStreamRead(cmd.Args)
	switch {
	case blocks:
		return s.refuse(c, cmd)
	case streams > 0 && streams < len(cmd.Args):
		return s.relayKeys(cmd, int(upstream.Slot(cmd.Args[streams])), c.many)
	}
	return s.relayAny(c, cmd) // Redis will say what is wrong
}

// parseStreamRead walks the options of XREAD and XREADGROUP as Redis does, for
// a group may be named like an option. It returns where the keys begin, 0 if
// they do not.
func parseStreamRead(args [][]byte) (streams int, blocks bool) {
	for i := 1; i < len(args); i++ {
		switch {
		case isWord(args[i], "STREAMS"):
			return i + 1, blocks
		case isWord(args[i], "BLOCK"):
			blocks = true
			i++
		case isWord(args[i], "COUNT"):
			i++
		case isWord(args[i], "GROUP"):
			i += 2
		}
	}
	return 0, blocks
}
