package proxy

import (
	"bytes"
	"strings"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
)

// msgCommandArity is Redis's error for COMMAND GETKEYS when the given command has a wrong number of
// arguments.
const msgCommandArity = "ERR Invalid number of arguments specified for command"

// commandInfoHandlers are COMMAND and its subcommands. They list the lock commands among Redis's,
// for clients that send only known commands.
func commandInfoHandlers() handlers {
	return handlers{
		"COMMAND":                 (*session).commandInfo,
		"COMMAND|INFO":            (*session).commandInfo,
		"COMMAND|COUNT":           (*session).commandCount,
		"COMMAND|LIST":            (*session).commandList,
		"COMMAND|DOCS":            (*session).commandDocs,
		"COMMAND|GETKEYS":         (*session).commandGetKeys,
		"COMMAND|GETKEYSANDFLAGS": (*session).commandGetKeys,
	}
}

// relayMerged relays a command to the session's usual node. m turns Redis's reply into the client's
// reply.
func (s *session) relayMerged(c *command.Command, cmd resp.Command, m func(reply []byte) []byte) bool {
	if !s.ready(c, cmd) {
		return true
	}
	p := call.NewPart(nil, call.AnySlot)
	p.Request = bytes.Clone(cmd.Raw)
	return s.router.RelayPart(p, len(cmd.Raw), merge.Rewritten(m))
}

// commandInfo answers COMMAND and COMMAND INFO [name …].
func (s *session) commandInfo(c *command.Command, cmd resp.Command) bool {
	resp3 := s.router.Lane.RESP3
	names := s.server.commands.OwnNames(cmd.Args)
	return s.relayMerged(c, cmd, func(reply []byte) []byte {
		all, ok := resp.Elements(reply)
		if !ok {
			return reply
		}
		if len(names) == 0 {
			for i := range command.AllOwn {
				all = append(all, command.AllOwn[i].Info(resp3))
			}
			return resp.Array(all)
		}
		for i := range min(len(all), len(names)) {
			if names[i] != nil {
				all[i] = names[i].Info(resp3)
			}
		}
		return resp.Array(all)
	})
}

func (s *session) commandCount(c *command.Command, cmd resp.Command) bool {
	return s.relayMerged(c, cmd, func(reply []byte) []byte {
		if n, ok := resp.Int(reply); ok {
			return resp.AppendInt(nil, n+int64(len(command.AllOwn)))
		}
		return reply
	})
}

// commandList answers COMMAND LIST [FILTERBY MODULE | ACLCAT | PATTERN value].
func (s *session) commandList(c *command.Command, cmd resp.Command) bool {
	filter := func(*command.Own) bool { return len(cmd.Args) == 2 }
	if len(cmd.Args) == 5 && resp.IsWord(cmd.Args[2], "FILTERBY") {
		value := strings.ToLower(string(cmd.Args[4]))
		switch by := cmd.Args[3]; {
		case resp.IsWord(by, "PATTERN"):
			filter = func(o *command.Own) bool { return pubsub.Match(value, o.Name) }
		case resp.IsWord(by, "ACLCAT"):
			filter = func(o *command.Own) bool { return o.HasCategory(value) }
		}
	}
	var names [][]byte
	for i := range command.AllOwn {
		for _, o := range command.AllOwn[i].WithSubs() {
			if filter(o) {
				names = append(names, resp.AppendBulk(nil, o.Name))
			}
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
func (s *session) commandDocs(c *command.Command, cmd resp.Command) bool {
	resp3 := s.router.Lane.RESP3
	var docs [][]byte
	names := s.server.commands.OwnNames(cmd.Args)
	for i := range command.AllOwn {
		for n, o := range command.AllOwn[i].WithSubs() {
			if len(cmd.Args) == 2 && n == 0 || contains(names, o) {
				docs = append(docs, resp.AppendBulk(nil, o.Name), o.Docs(resp3))
			}
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

func contains(names []*command.Own, o *command.Own) bool {
	for _, n := range names {
		if n == o {
			return true
		}
	}
	return false
}

// commandGetKeys answers COMMAND GETKEYS and COMMAND GETKEYSANDFLAGS for Leash's own commands.
func (s *session) commandGetKeys(c *command.Command, cmd resp.Command) bool {
	if len(cmd.Args) < 3 {
		return s.router.RelayAny(cmd)
	}
	o := s.server.commands.Own(cmd.Args[2])
	if o == nil {
		return s.router.RelayAny(cmd)
	}
	keys := o.KeysOf(cmd.Args[2:])
	switch {
	case !s.ready(c, cmd):
		return true
	case o.Keys == command.NoKey:
		return s.fail("ERR The command has no key arguments")
	case !o.ArityOK(cmd.Args[2:]):
		return s.fail(msgCommandArity)
	case len(keys) == 0:
		return s.fail("ERR Invalid arguments specified for command")
	}
	b := resp.AppendArray(s.scratch[:0], len(keys))
	for _, key := range keys {
		if c.Name == "command|getkeys" {
			b = resp.AppendBulk(b, key)
		} else {
			b = resp.AppendSet(resp.AppendBulk(resp.AppendArray(b, 2), key), s.router.Lane.RESP3, o.Use.KeyFlags...)
		}
	}
	s.scratch = b
	return s.answer(b)
}

// lockHelp answers LOCK.HELP in the form of Redis's own HELP subcommands.
func (s *session) lockHelp(c *command.Command, args [][]byte) bool {
	if !c.ArityOK(args) {
		return s.fail("ERR wrong number of arguments for 'lock.help' command")
	}
	return s.help("Leash's own commands. Options may come in any order, times are in milliseconds:", command.AllOwn)
}

// help answers with a title, and the usage and the purpose of each command.
func (s *session) help(title string, commands []command.Own) bool {
	lines := []string{title}
	for i := range commands {
		lines = append(lines, commands[i].Usage(), "    "+commands[i].Summary+".")
	}
	b := resp.AppendArray(s.scratch[:0], len(lines))
	for _, line := range lines {
		b = resp.AppendStatus(b, line)
	}
	s.scratch = b
	return s.answer(b)
}
