// Package commandinfo is COMMAND and its subcommands. They list the lock commands among Redis's,
// for clients that send only known commands.
package commandinfo

import (
	"bytes"
	"slices"
	"strings"

	"leash/proxy/command"
	"leash/proxy/pubsub"
	"leash/proxy/resp"
	"leash/proxy/usage"
)

// msgArity is Redis's error for COMMAND GETKEYS when the given command has a wrong number of
// arguments.
const msgArity = "ERR Invalid number of arguments specified for command"

// Router is what the commands need of a session's router. Its methods return false when the session
// ends.
type Router interface {
	Answer(reply []byte) bool
	Fail(message string) bool
	// RelayAny lets any node answer a command.
	RelayAny(cmd resp.Command) bool
	// RelayRewritten is RelayAny, and changes the reply.
	RelayRewritten(cmd resp.Command, rewrite func(reply []byte) []byte) bool
}

// View is what one client sees of the commands.
type View struct {
	Router
	Table command.Table
	RESP3 bool
}

// Run answers a command c of this family. The user may run it. It returns false when the session
// ends.
type Run func(v View, c *command.Command, cmd resp.Command) bool

// Commands are the commands of this family, by upper-case name.
func Commands() map[string]Run {
	return map[string]Run{
		"COMMAND":                 info,
		"COMMAND|INFO":            info,
		"COMMAND|COUNT":           count,
		"COMMAND|LIST":            list,
		"COMMAND|DOCS":            docs,
		"COMMAND|GETKEYS":         getKeys,
		"COMMAND|GETKEYSANDFLAGS": getKeys,
	}
}

// info answers COMMAND and COMMAND INFO [name …].
func info(v View, _ *command.Command, cmd resp.Command) bool {
	resp3 := v.RESP3
	names := v.Table.OwnNames(cmd.Args)
	return v.RelayRewritten(cmd, func(reply []byte) []byte {
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

func count(v View, _ *command.Command, cmd resp.Command) bool {
	return v.RelayRewritten(cmd, func(reply []byte) []byte {
		if n, ok := resp.Int(reply); ok {
			return resp.AppendInt(nil, n+int64(len(command.AllOwn)))
		}
		return reply
	})
}

// list answers COMMAND LIST [FILTERBY MODULE | ACLCAT | PATTERN value].
func list(v View, _ *command.Command, cmd resp.Command) bool {
	filter := func(*usage.Command) bool { return len(cmd.Args) == 2 }
	if len(cmd.Args) == 5 && resp.IsWord(cmd.Args[2], "FILTERBY") {
		value := strings.ToLower(string(cmd.Args[4]))
		switch by := cmd.Args[3]; {
		case resp.IsWord(by, "PATTERN"):
			filter = func(o *usage.Command) bool { return pubsub.Match(value, o.Name) }
		case resp.IsWord(by, "ACLCAT"):
			filter = func(o *usage.Command) bool { return o.HasCategory(value) }
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
	return v.RelayRewritten(cmd, func(reply []byte) []byte {
		if all, ok := resp.Elements(reply); ok {
			return resp.Array(append(all, names...))
		}
		return reply
	})
}

// docs answers COMMAND DOCS [name …]. The reply is a map of the commands that exist.
func docs(v View, _ *command.Command, cmd resp.Command) bool {
	resp3 := v.RESP3
	var own [][]byte
	names := v.Table.OwnNames(cmd.Args)
	for i := range command.AllOwn {
		for n, o := range command.AllOwn[i].WithSubs() {
			if len(cmd.Args) == 2 && n == 0 || slices.Contains(names, o) {
				own = append(own, resp.AppendBulk(nil, o.Name), o.Docs(resp3))
			}
		}
	}
	return v.RelayRewritten(cmd, func(reply []byte) []byte {
		all, ok := resp.Elements(reply)
		if !ok {
			return reply
		}
		all = append(all, own...)
		if resp3 {
			return append(resp.AppendMap(nil, len(all)/2), bytes.Join(all, nil)...)
		}
		return resp.Array(all)
	})
}

// getKeys answers COMMAND GETKEYS and COMMAND GETKEYSANDFLAGS for Leash's own commands.
func getKeys(v View, c *command.Command, cmd resp.Command) bool {
	if len(cmd.Args) < 3 {
		return v.RelayAny(cmd)
	}
	o := v.Table.Own(cmd.Args[2])
	if o == nil {
		return v.RelayAny(cmd)
	}
	keys := o.KeysOf(cmd.Args[2:])
	switch {
	case o.Keys == usage.NoKey:
		return v.Fail("ERR The command has no key arguments")
	case !o.ArityOK(cmd.Args[2:]):
		return v.Fail(msgArity)
	case len(keys) == 0:
		return v.Fail("ERR Invalid arguments specified for command")
	}
	b := resp.AppendArray(nil, len(keys))
	for _, key := range keys {
		if c.Name == "command|getkeys" {
			b = resp.AppendBulk(b, key)
		} else {
			b = resp.AppendSet(resp.AppendBulk(resp.AppendArray(b, 2), key), v.RESP3, o.Use.KeyFlags...)
		}
	}
	return v.Answer(b)
}

// Help is the reply of a HELP command of Leash, in the form of Redis's own HELP subcommands: a
// title, and the usage and the purpose of each command.
func Help(title string, commands []usage.Command) []byte {
	lines := []string{title}
	for i := range commands {
		lines = append(lines, commands[i].Usage(), "    "+commands[i].Summary+".")
	}
	b := resp.AppendArray(nil, len(lines))
	for _, line := range lines {
		b = resp.AppendStatus(b, line)
	}
	return b
}
