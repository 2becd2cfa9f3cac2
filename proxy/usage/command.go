// Package usage describes commands of Leash's own: what COMMAND, COMMAND DOCS and LOCK.HELP tell
// of them, which of their arguments are keys, and which rights they need. Package lockcmd describes
// its commands with it, and proxy/command those for operators.
package usage

import (
	"slices"
	"strings"

	"leash/proxy/resp"
)

// Command is a command that only Leash has. COMMAND, LOCK.HELP, rights, pauses and RESP3 use
// this description.
type Command struct {
	Name    string // lower case; "leash|nodes"
	Arity   int    // number of arguments, with the name; negative: at least that many
	Keys    KeyPositions
	Use     *KeyUse
	Blocks  bool // may wait
	AsMap   bool // its reply is a map
	Summary string

	Arguments []Argument

	Subs []Command // of a container; their names are "container|name"
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
func (o *Command) HasCategory(name string) bool {
	return slices.Contains(o.Categories(), "@"+name)
}

// ArityOK checks the number of arguments.
func (o *Command) ArityOK(args [][]byte) bool {
	return len(args) == o.Arity || o.Arity < 0 && len(args) >= -o.Arity
}

// KeysOf returns the keys among a command's arguments, or none if the arguments are wrong.
func (o *Command) KeysOf(args [][]byte) [][]byte {
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

// WithSubs returns o and its subcommands.
func (o *Command) WithSubs() []*Command {
	all := []*Command{o}
	for i := range o.Subs {
		all = append(all, &o.Subs[i])
	}
	return all
}

// Denial returns the error for a user without a right. It names the Redis command that the user may
// not run.
func (o *Command) Denial(key bool) string {
	needs := "'" + strings.ToLower(o.Use.Right[0]) + "'"
	if key {
		return "NOPERM this user has no permissions to access one of the keys used as arguments: '" +
			o.Name + "' needs the right to " + needs + " it"
	}
	return "NOPERM this user has no permissions to run the '" + o.Name +
		"' command: it needs the right to run " + needs + " on its key"
}
