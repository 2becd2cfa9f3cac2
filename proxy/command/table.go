package command

import (
	"slices"
	"strings"

	"leash/proxy/usage"
)

// Table has the commands by upper-case name. It is immutable once the proxy runs.
type Table map[string]*Command

// maxName is the length of the longest name that Lookup finds. Longer names are unknown.
const maxName = 64

// Lookup finds the command of args without allocating. For a container it also looks up the
// subcommand. If that is unknown, it returns the container.
func (t Table) Lookup(args [][]byte) *Command {
	var buf [maxName]byte
	c := t[string(upper(buf[:0], args[0]))]
	if c == nil || c.Subs == nil || len(args) == 1 {
		return c
	}
	if sub := c.Subs[string(upper(buf[:0], args[1]))]; sub != nil {
		return sub
	}
	return c
}

// Own returns the command of Leash with a name, or nil if there is none. The name of a subcommand
// has a "|", as in COMMAND INFO.
func (t Table) Own(name []byte) *usage.Command {
	if c := t.named(string(name)); c != nil {
		return c.Own
	}
	return nil
}

// named returns the command with a name such as "config|set", or nil if there is none. Case does
// not matter.
func (t Table) named(name string) *Command {
	parent, sub, isSub := strings.Cut(strings.ToUpper(name), "|")
	c := t[parent]
	if c != nil && isSub {
		return c.Subs[sub]
	}
	return c
}

// OwnNames looks up the commands that a COMMAND subcommand names. An element is nil if the command
// is not one of Leash's own.
func (t Table) OwnNames(args [][]byte) []*usage.Command {
	if len(args) < 3 {
		return nil
	}
	names := make([]*usage.Command, len(args)-2)
	for i, arg := range args[2:] {
		names[i] = t.Own(arg)
	}
	return names
}

// All returns the commands and subcommands, each once.
func (t Table) All() (all []*Command) {
	for _, c := range t {
		all = append(append(all, c), Table(c.Subs).All()...)
	}
	return all
}

func upper(dst, name []byte) []byte {
	if len(name) > maxName {
		return nil
	}
	for _, c := range name {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// New makes the table from the upstream's commands (see Parse), which it keeps. Commands that the
// upstream does not report come from the built-in table, because nodes of a cluster may have
// different versions.
func New(commands []*Command) Table {
	t := make(Table, len(commands))
	static := builtin()
	known := make(map[string]bool, len(static))
	for _, c := range static {
		known[c.Name] = true
	}
	for _, c := range append(static, commands...) {
		c.Trusted = known[c.Name] && !runsScript(c.Name)
		if !IsOwn([]byte(c.Name)) { // a module's command of that name cannot be reached
			t.add(c)
		}
	}
	for i := range treatments {
		for name := range strings.FieldsSeq(treatments[i].names) {
			t.treat(name, &treatments[i])
		}
	}
	for i := range AllOwn {
		for _, of := range AllOwn[i].WithSubs() {
			t.put(&Command{Name: of.Name, Arity: of.Arity, Write: !of.Use.Reads, Class: LeashOnly, Own: of})
		}
	}
	t.markReadable()
	t.markRepeatable()
	for i, c := range t.All() {
		c.Index, c.ClassIndex = i, uint8(slices.Index(Classes[:], c.Class))
	}
	return t
}

// markReadable marks the commands that a replica may serve: those that only read keys. EVALSHA_RO
// is not marked, because its script may be on the master alone.
func (t Table) markReadable() {
	for _, c := range t {
		whole := c.Class == Relayed || c.Class == SplitUp
		c.Readable = c.Readonly && !c.Blocking && whole && len(c.Keys) > 0 && c.Name != "evalsha_ro"
		Table(c.Subs).markReadable()
	}
}

// repeatableAboutServer are commands about a server that only read.
var repeatableAboutServer = map[string]bool{
	"acl|cat": true, "acl|getuser": true, "acl|list": true, "acl|users": true, "acl|whoami": true,
	"command": true, "command|count": true, "command|docs": true, "command|info": true, "command|list": true,
	"config|get": true, "dbsize": true, "function|dump": true, "function|list": true, "function|stats": true,
	"info": true, "lastsave": true, "latency|history": true, "latency|latest": true, "memory|stats": true,
	"role": true, "script|exists": true, "slowlog|get": true, "slowlog|len": true, "time": true,
}

// markRepeatable marks the commands that do no harm when they run twice.
func (t Table) markRepeatable() {
	for _, c := range t {
		reads := c.Readonly && c.Data && !c.Blocking && !c.MayPropagate()
		c.Repeatable = reads || repeatableAboutServer[c.Name]
		Table(c.Subs).markRepeatable()
	}
}

func (t Table) add(c *Command) {
	c.ManyKeys = len(c.Keys) > 1 || slices.ContainsFunc(c.Keys, KeySpec.many)
	c.Class = ordinary(c)
	t.put(c)
}

// put adds a command or, if its parent is there, a subcommand. It replaces one of the same name,
// but not its subcommands.
func (t Table) put(c *Command) {
	parent, sub, isSub := strings.Cut(strings.ToUpper(c.Name), "|")
	if !isSub {
		if old := t[parent]; old != nil {
			c.Subs = old.Subs
		}
		t[parent] = c
		return
	}
	if p := t[parent]; p != nil {
		if p.Subs == nil {
			p.Subs = make(map[string]*Command)
		}
		p.Subs[sub] = c
	}
}

// treat sets how a command is treated. It adds a command that the upstream does not have, such as
// CLIENT SETINFO before Redis 7.2.
func (t Table) treat(name string, how *treatment) {
	c := t.named(name)
	if c == nil {
		c = &Command{Name: strings.ToLower(name), Arity: -1}
		t.put(c)
	}
	c.Class, c.Note = how.class, how.note
}
