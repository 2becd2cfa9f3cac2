package proxy

import (
	"bytes"
	"strings"

	"leash/proxy/merge"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// msgCommandArity is Redis's error for COMMAND GETKEYS when the given command has a wrong number of
// arguments.
const msgCommandArity = "ERR Invalid number of arguments specified for command"

// commandInfoSpecs are COMMAND and its subcommands. They list the lock commands among Redis's, for
// clients that send only known commands.
func commandInfoSpecs() commandSpecs {
	const note = "includes the commands of Leash"
	return commandSpecs{
		"COMMAND": {(*session).commandInfo, anyNode, note}, "COMMAND|INFO": {(*session).commandInfo, anyNode, note},
		"COMMAND|COUNT": {(*session).commandCount, anyNode, note}, "COMMAND|LIST": {(*session).commandList, anyNode, note},
		"COMMAND|DOCS":            {(*session).commandDocs, anyNode, note},
		"COMMAND|GETKEYS":         {(*session).commandGetKeys, anyNode, note},
		"COMMAND|GETKEYSANDFLAGS": {(*session).commandGetKeys, anyNode, note},
	}
}

// relayMerged relays a command to the session's usual node. m turns Redis's reply into the client's
// reply.
func (s *session) relayMerged(c *command, cmd resp.Command, m func(reply []byte) []byte) bool {
	switch {
	case !s.ready(c, cmd):
		return true
	case !s.adoptTopology() || !s.admitCall(len(cmd.Raw)):
		return false
	case s.keyless < 0:
		return s.fail(msgSlotUnserved)
	}
	p := &part{slot: anySlot}
	p.Request = bytes.Clone(cmd.Raw)
	to := []*upstream.Node{s.topology.Masters()[s.keyless]}
	return s.fanOut([]*part{p}, to, len(cmd.Raw), merge.Rewritten(m))
}

// commandInfo answers COMMAND and COMMAND INFO [name …].
func (s *session) commandInfo(c *command, cmd resp.Command) bool {
	resp3 := s.lane.RESP3
	names := s.server.commands.ownNames(cmd.Args)
	return s.relayMerged(c, cmd, func(reply []byte) []byte {
		all, ok := resp.Elements(reply)
		if !ok {
			return reply
		}
		if len(names) == 0 {
			for i := range ownCommands {
				all = append(all, ownCommands[i].info(resp3))
			}
			return resp.Array(all)
		}
		for i := range min(len(all), len(names)) {
			if names[i] != nil {
				all[i] = names[i].info(resp3)
			}
		}
		return resp.Array(all)
	})
}

// ownNames looks up the commands that a COMMAND subcommand names. An element is nil if the command
// is not one of Leash's own.
func (t table) ownNames(args [][]byte) []*ownCommand {
	if len(args) < 3 {
		return nil
	}
	names := make([]*ownCommand, len(args)-2)
	for i, arg := range args[2:] {
		names[i] = t.own(arg)
	}
	return names
}

func (s *session) commandCount(c *command, cmd resp.Command) bool {
	return s.relayMerged(c, cmd, func(reply []byte) []byte {
		if n, ok := resp.Int(reply); ok {
			return resp.AppendInt(nil, n+int64(len(ownCommands)))
		}
		return reply
	})
}

// commandList answers COMMAND LIST [FILTERBY MODULE | ACLCAT | PATTERN value].
func (s *session) commandList(c *command, cmd resp.Command) bool {
	filter := func(*ownCommand) bool { return len(cmd.Args) == 2 }
	if len(cmd.Args) == 5 && isWord(cmd.Args[2], "FILTERBY") {
		value := strings.ToLower(string(cmd.Args[4]))
		switch by := cmd.Args[3]; {
		case isWord(by, "PATTERN"):
			filter = func(o *ownCommand) bool { return pubsub.Match(value, o.name) }
		case isWord(by, "ACLCAT"):
			filter = func(o *ownCommand) bool { return o.hasCategory(value) }
		}
	}
	var names [][]byte
	for i := range ownCommands {
		if filter(&ownCommands[i]) {
			names = append(names, resp.AppendBulk(nil, ownCommands[i].name))
		}
	}
	return s.relayMerged(c, cmd, func(reply []byte) []byte {
		if all, ok := resp.Elements(reply); ok {
			return resp.Array(append(all, names...))
		}
		return reply
	})
}

// commandDocs answers COMMAND DOCS [name …]. The reply is a map of the commands that exist.
func (s *session) commandDocs(c *command, cmd resp.Command) bool {
	resp3 := s.lane.RESP3
	var docs [][]byte
	names := s.server.commands.ownNames(cmd.Args)
	for i := range ownCommands {
		if o := &ownCommands[i]; len(cmd.Args) == 2 || contains(names, o) {
			docs = append(docs, resp.AppendBulk(nil, o.name), o.docs(resp3))
		}
	}
	return s.relayMerged(c, cmd, func(reply []byte) []byte {
		all, ok := resp.Elements(reply)
		if !ok {
			return reply
		}
		all = append(all, docs...)
		if resp3 {
			return append(resp.AppendMap(nil, len(all)/2), bytes.Join(all, nil)...)
		}
		return resp.Array(all)
	})
}

func contains(names []*ownCommand, o *ownCommand) bool {
	for _, n := range names {
		if n == o {
			return true
		}
	}
	return false
}

// commandGetKeys answers COMMAND GETKEYS and COMMAND GETKEYSANDFLAGS for Leash's own commands.
func (s *session) commandGetKeys(c *command, cmd resp.Command) bool {
	if len(cmd.Args) < 3 {
		return s.relayAny(c, cmd)
	}
	o := s.server.commands.own(cmd.Args[2])
	if o == nil {
		return s.relayAny(c, cmd)
	}
	keys := o.keysOf(cmd.Args[2:])
	switch {
	case !s.ready(c, cmd):
		return true
	case o.keys == noKey:
		return s.fail("ERR The command has no key arguments")
	case !o.arityOK(cmd.Args[2:]):
		return s.fail(msgCommandArity)
	case len(keys) == 0:
		return s.fail("ERR Invalid arguments specified for command")
	}
	b := resp.AppendArray(s.scratch[:0], len(keys))
	for _, key := range keys {
		if c.name == "command|getkeys" {
			b = resp.AppendBulk(b, key)
		} else {
			b = appendSet(resp.AppendBulk(resp.AppendArray(b, 2), key), s.lane.RESP3, o.use.keyFlags...)
		}
	}
	s.scratch = b
	return s.answer(b)
}
