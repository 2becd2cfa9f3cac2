package command

import (
	"slices"
	"strings"

	"leash/proxy/resp"
	"leash/proxy/usage"
)

// Command is one command or subcommand of the table.
type Command struct {
	Name  string // lower case, as in Redis's own messages; "object|encoding"
	Arity int    // number of arguments, with the name; negative: at least -Arity
	Keys  []KeySpec
	Class Class
	Note  string              // what Class does not say; of Refused the reason
	Subs  map[string]*Command // by upper-case name
	Own   *usage.Command      // nil for a command of Redis
	Index int                 // the command's number, from 0 without gaps (see Table.All)

	// Categories are those of ACLs, as in "@admin". They are empty if Redis has not told them.
	Categories []string

	ClassIndex uint8 // of Class in Classes

	Blocking   bool // may block, depending on its arguments
	Write      bool // may write, itself or by a script
	Readonly   bool // only reads data
	Script     bool // runs a script
	Data       bool // only reads or writes data: one reply, and the connection stays as it was
	ManyKeys   bool // can have more than one key
	Trusted    bool // its errors come from Redis itself, not from a script or a module
	Repeatable bool // does no harm when it is executed twice
	Readable   bool // may be served by a replica, when that is wanted
}

// FirstKey returns the index of the command's first key in args, or 0 if there is none.
func (c *Command) FirstKey(args [][]byte) int {
	for _, k := range c.Keys {
		if i := k.first(args); i > 0 && (len(args[i]) > 0 || c.Name != "migrate") {
			return i
		}
	}
	return 0
}

// ArityOK checks the number of arguments.
func (c *Command) ArityOK(args [][]byte) bool {
	return len(args) == c.Arity || c.Arity < 0 && len(args) >= -c.Arity
}

// runsScript reports whether the reply of the command can come from a script.
func runsScript(name string) bool {
	return strings.HasPrefix(name, "eval") || strings.HasPrefix(name, "fcall")
}

func (c *Command) setFlags(flags []string) {
	c.Blocking = slices.Contains(flags, "blocking")
	c.Script = runsScript(c.Name)
	c.Write = slices.Contains(flags, "write") || c.Script
	c.Readonly = slices.Contains(flags, "readonly")
	c.Data = c.Readonly || slices.Contains(flags, "write")
}

// mayPropagate are commands that Redis's command table does not mark as writes, but that can change
// what replicas see.
var mayPropagate = map[string]bool{
	"fcall": true, "eval": true, "evalsha": true, "pfcount": true, "publish": true, "spublish": true,
}

// MayPropagate reports whether the command can change what replicas see. As in Redis, a pause of
// writes delays such commands, and EXEC of a transaction that has one.
func (c *Command) MayPropagate() bool {
	return c.Write && !strings.HasSuffix(c.Name, "_ro") || mayPropagate[c.Name]
}

// Waits reports whether a command is WAIT or WAITAOF.
func (c *Command) Waits() bool { return c.Name == "wait" || c.Name == "waitaof" }

// Overtakes reports whether the reply to a command could come before invalidations that Redis sent
// earlier.
func (c *Command) Overtakes() bool {
	switch c.Class {
	case Answered, AnyNode, EveryMaster, Subscriber:
		return true
	}
	return false
}

// Refusal returns the error for a command of class Refused.
func (c *Command) Refusal() string {
	reason := c.Note
	if c.Class != Refused || reason == "" {
		reason = reasonUnknown
	}
	return "ERR '" + c.Name + "' is refused by leash: " + reason
}

// reasonUnknown is why Leash refuses a command that only the upstream knows and that is not only
// about data. Such a command belongs to a module or to a newer Redis.
const reasonUnknown = "Leash does not know what it does to a connection that other clients share"

// IsHTTP reports whether a command is a line of HTTP that every browser sends.
func IsHTTP(name []byte) bool { return resp.IsWord(name, "POST") || resp.IsWord(name, "HOST:") }
