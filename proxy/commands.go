package proxy

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed commands.txt
var builtinCommands string

// builtinVersion is the version of Redis that commands.txt describes.
const builtinVersion = "7.0.15"

// command is one command or subcommand of the table.
type command struct {
	name       string // lower case, as in Redis's own messages; "object|encoding"
	arity      int    // number of arguments, with the name; negative: at least -arity
	blocking   bool   // may block, depending on its arguments
	write      bool   // may write, itself or by a script
	readonly   bool   // only reads data
	script     bool   // runs a script
	repeatable bool   // does no harm when it is executed twice
	readable   bool   // may be served by a replica, when that is wanted
	data       bool   // only reads or writes data: one reply, and the connection stays as it was
	keys       []keySpec
	many       bool // can have more than one key
	trusted    bool // its errors come from Redis itself, not from a script or a module
	run        handler
	class      class
	note       string
	subs       map[string]*command // by upper-case name
	own        *ownCommand         // nil for a command of Redis
}

// table is the command table, immutable once the proxy runs. Names are upper case.
type table map[string]*command

// maxName is the length of the longest name that lookup finds. Longer names are unknown.
const maxName = 64

// lookup finds the command of args without allocating. For a container it also looks up the
// subcommand. If that is unknown, it returns the container.
func (t table) lookup(args [][]byte) *command {
	var buf [maxName]byte
	c := t[string(upper(buf[:0], args[0]))]
	if c == nil || c.subs == nil || len(args) == 1 {
		return c
	}
	if sub := c.subs[string(upper(buf[:0], args[1]))]; sub != nil {
		return sub
	}
	return c
}

// own returns the command of Leash with a name, or nil if there is none.
func (t table) own(name []byte) *ownCommand {
	if c := t.lookup([][]byte{name}); c != nil {
		return c.own
	}
	return nil
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

// firstKey returns the index of the command's first key in args, or 0 if there is none.
func (c *command) firstKey(args [][]byte) int {
	for _, k := range c.keys {
		if i := k.first(args); i > 0 && (len(args[i]) > 0 || c.name != "migrate") {
			return i
		}
	}
	return 0
}

// arityOK checks the number of arguments.
func (c *command) arityOK(args [][]byte) bool {
	return len(args) == c.arity || c.arity < 0 && len(args) >= -c.arity
}

// newTable makes the table from the upstream's commands. Commands that the upstream does not report
// come from the built-in table, because nodes of a cluster may have different versions.
func newTable(commands []*command) table {
	t := make(table, len(commands))
	own := builtin()
	known := make(map[string]bool, len(own))
	for _, c := range own {
		known[c.name] = true
	}
	for _, c := range append(own, commands...) {
		c.trusted = known[c.name] && !runsScript(c.name)
		if !isLockCommand([]byte(c.name)) { // a module's command of that name cannot be reached
			t.add(c)
		}
	}
	for name, how := range allSpecs() {
		t.handle(name, how)
	}
	for i := range ownCommands {
		o := &ownCommands[i]
		t[strings.ToUpper(o.name)] = &command{name: o.name, arity: o.arity, write: !o.use.reads, run: (*session).lock, class: leashOnly, own: o}
	}
	t.markReadable()
	t.markRepeatable()
	return t
}

// markReadable marks the commands that a replica may serve: those that only read keys. EVALSHA_RO
// is not marked, because its script may be on the master alone.
func (t table) markReadable() {
	for _, c := range t {
		whole := c.class == relayed || c.class == splitUp
		c.readable = c.readonly && !c.blocking && whole && len(c.keys) > 0 && c.name != "evalsha_ro"
		table(c.subs).markReadable()
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
func (t table) markRepeatable() {
	for _, c := range t {
		reads := c.readonly && c.data && !c.blocking && !c.mayPropagate()
		c.repeatable = reads || repeatableAboutServer[c.name]
		table(c.subs).markRepeatable()
	}
}

// runsScript reports whether the reply of the command can come from a script.
func runsScript(name string) bool {
	return strings.HasPrefix(name, "eval") || strings.HasPrefix(name, "fcall")
}

func (t table) add(c *command) {
	c.many = len(c.keys) > 1 || slices.ContainsFunc(c.keys, keySpec.many)
	c.run, c.class = ordinary(c)
	parent, sub, isSub := strings.Cut(strings.ToUpper(c.name), "|")
	if !isSub {
		if old := t[parent]; old != nil {
			c.subs = old.subs
		}
		t[parent] = c
		return
	}
	if p := t[parent]; p != nil {
		if p.subs == nil {
			p.subs = make(map[string]*command)
		}
		p.subs[sub] = c
	}
}

// handle sets how a command is treated. It adds a command that the upstream does not have, such as
// CLIENT SETINFO before Redis 7.2.
func (t table) handle(name string, how commandSpec) {
	parent, sub, isSub := strings.Cut(name, "|")
	c := t[parent]
	if c == nil {
		c = &command{name: strings.ToLower(parent), arity: -1}
		t[parent] = c
	}
	if isSub {
		if c.subs == nil {
			c.subs = make(map[string]*command)
		}
		if c.subs[sub] == nil {
			c.subs[sub] = &command{name: strings.ToLower(name), arity: -2}
		}
		c = c.subs[sub]
	}
	c.run, c.class, c.note = how.run, how.class, how.note
}

// builtin parses the embedded table.
func builtin() []*command {
	var commands []*command
	for line := range strings.Lines(builtinCommands) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		c, err := parseCommand(fields)
		if err != nil {
			panic("proxy: commands.txt: " + err.Error())
		}
		commands = append(commands, c)
	}
	return commands
}

func parseCommand(fields []string) (*command, error) {
	if len(fields) < 3 {
		return nil, fmt.Errorf("%v: too short", fields)
	}
	arity, err := strconv.Atoi(fields[1])
	if err != nil {
		return nil, err
	}
	c := &command{name: fields[0], arity: arity}
	c.setFlags(strings.Split(fields[2], ","))
	for _, f := range fields[3:] {
		k, err := parseKeySpec(f)
		if err != nil {
			return nil, err
		}
		c.keys = append(c.keys, k)
	}
	return c, nil
}

func (c *command) setFlags(flags []string) {
	c.blocking = slices.Contains(flags, "blocking")
	c.script = runsScript(c.name)
	c.write = slices.Contains(flags, "write") || c.script
	c.readonly = slices.Contains(flags, "readonly")
	c.data = c.readonly || slices.Contains(flags, "write")
}
