package command

import (
	"slices"
	"strings"

	"leash/proxy/resp"
)

// Own is a command that only Leash has. COMMAND, LOCK.HELP, rights, pauses and RESP3 use
// this description.
type Own struct {
	Name    string // lower case; "leash|nodes"
	Arity   int    // number of arguments, with the name; negative: at least that many
	Keys    KeyPositions
	Use     *KeyUse
	Blocks  bool // may wait
	AsMap   bool // its reply is a map
	Summary string

	Arguments []Argument

	Subs []Own // of a container; their names are "container|name"
}

// KeyPositions says which arguments of a command are keys.
type KeyPositions int

// The positions of keys.
const (
	NoKey    KeyPositions = iota
	FirstKey              // the first argument is the only key
	NumKeys               // the first argument is the number of keys
)

// KeyUse is how a command uses its keys.
type KeyUse struct {
	Flags, Categories, KeyFlags []string
	Reads                       bool // changes nothing, so a pause of writes does not hold it back
	// Right is the Redis command, with the arguments after its key, that the user must be allowed
	// to run with each key (rule R8). It is empty if no right is needed.
	Right []string
}

// HasCategory reports whether the command is in a category of ACLs, named without its @.
func (o *Own) HasCategory(name string) bool {
	return slices.Contains(o.categories(), "@"+name)
}

// ArityOK checks the number of arguments.
func (o *Own) ArityOK(args [][]byte) bool {
	return len(args) == o.Arity || o.Arity < 0 && len(args) >= -o.Arity
}

// KeysOf returns the keys among a command's arguments, or none if the arguments are wrong.
func (o *Own) KeysOf(args [][]byte) [][]byte {
	switch {
	case !o.ArityOK(args):
	case o.Keys == FirstKey:
		return args[1:2]
	case o.Keys == NumKeys:
		if n, ok := resp.ParseInt(args[1]); ok && 0 < n && n <= int64(len(args)-2) {
			return args[2 : 2+n]
		}
	}
	return nil
}

func (o *Own) command() *Command {
	c := &Command{Name: o.Name, Arity: o.Arity, Write: !o.Use.Reads, Class: LeashOnly, Own: o}
	for i := range o.Subs {
		if c.Subs == nil {
			c.Subs = make(map[string]*Command)
		}
		_, name, _ := strings.Cut(o.Subs[i].Name, "|")
		c.Subs[strings.ToUpper(name)] = o.Subs[i].command()
	}
	return c
}

// WithSubs returns o and its subcommands.
func (o *Own) WithSubs() []*Own {
	all := []*Own{o}
	for i := range o.Subs {
		all = append(all, &o.Subs[i])
	}
	return all
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

// Denial returns the error for a user without a right. It names the Redis command that the user may
// not run.
func (o *Own) Denial(key bool) string {
	needs := "'" + strings.ToLower(o.Use.Right[0]) + "'"
	if key {
		return "NOPERM this user has no permissions to access one of the keys used as arguments: '" +
			o.Name + "' needs the right to " + needs + " it"
	}
	return "NOPERM this user has no permissions to run the '" + o.Name +
		"' command: it needs the right to run " + needs + " on its key"
}
