package command

import (
	"slices"
	"strings"

	"leash/lockcmd"
	"leash/proxy/resp"
	"leash/proxy/usage"
)

// AllOwn describes all commands of Leash, in the order of LOCK.HELP.
var AllOwn = append(slices.Clone(lockcmd.Usage), admin)

// ofLeash makes the command of the table from its description.
func ofLeash(of *usage.Command) *Command {
	c := &Command{Name: of.Name, Arity: of.Arity, Write: !of.Use.Reads, Class: LeashOnly, Own: of}
	for i := range of.Subs {
		if c.Subs == nil {
			c.Subs = make(map[string]*Command)
		}
		_, name, _ := strings.Cut(of.Subs[i].Name, "|")
		c.Subs[strings.ToUpper(name)] = ofLeash(&of.Subs[i])
	}
	return c
}

// ownPrefixes are the prefixes of the names of Leash's own commands.
var ownPrefixes = [...]string{"LOCK.", "SEM.", "LATCH."}

// IsOwn reports whether a name has the prefix of Leash's own commands. There may be no such
// command.
func IsOwn(name []byte) bool {
	for _, prefix := range ownPrefixes {
		if len(name) > len(prefix) && resp.IsWord(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}
