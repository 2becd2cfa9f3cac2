package command

import (
	"errors"
	"slices"
	"strings"
)

var errCommandReply = errors.New("command: COMMAND's reply is not understood")

// Parse parses the upstream's reply to COMMAND
// (https://redis.io/docs/latest/commands/command/). Redis before 7 reports only the first key, the
// last key and the step. For such a server, subcommands and blocking commands come from the
// built-in table.
func Parse(reply []any) ([]*Command, error) {
	known := make(map[string]*Command)
	var subs []*Command
	for _, c := range builtin() {
		known[c.Name] = c
		if strings.Contains(c.Name, "|") {
			subs = append(subs, c)
		}
	}
	var commands []*Command
	for _, entry := range reply {
		if err := appendCommands(&commands, entry, known); err != nil {
			return nil, err
		}
	}
	if len(reply) > 0 && len(list(reply[0])) < modernFields {
		commands = append(commands, subs...)
	}
	return commands, nil
}

// categoriesField is the index of the categories of ACLs, since Redis 6.
const categoriesField = 6

// modernFields is the number of fields of a command in COMMAND since Redis 7.
const modernFields = 10

func appendCommands(commands *[]*Command, entry any, known map[string]*Command) error {
	fields, ok := entry.([]any)
	if !ok || len(fields) < 6 {
		return errCommandReply
	}
	name, ok := fields[0].(string)
	if !ok {
		return errCommandReply
	}
	if IsHTTP([]byte(name)) {
		return nil // Redis 6 and older list it, but close the connection that sends it
	}
	c := &Command{Name: strings.ToLower(name), Arity: number(fields[1])}
	flags := words(fields[2])
	c.setFlags(flags)
	if len(fields) > categoriesField {
		c.Categories = words(fields[categoriesField])
	}
	*commands = append(*commands, c)
	if len(fields) < modernFields {
		c.legacy(fields, flags, known)
		return nil
	}
	for _, spec := range list(fields[8]) {
		if k, ok := parseSpecReply(spec); ok {
			c.Keys = append(c.Keys, validSpecs(k)...)
		}
	}
	for _, sub := range list(fields[9]) {
		if err := appendCommands(commands, sub, known); err != nil {
			return err
		}
	}
	return nil
}

// legacy adds what Redis 6 and older do not report. An unknown command that scripts may not call
// counts as blocking, because it must not stall a shared link.
func (c *Command) legacy(fields []any, flags []string, known map[string]*Command) {
	if k := known[c.Name]; k != nil {
		c.Keys, c.Blocking, c.Data = k.Keys, k.Blocking, k.Data
		return
	}
	c.Blocking = slices.Contains(flags, "noscript")
	first, last, step := number(fields[3]), number(fields[4]), number(fields[5])
	if first > 0 {
		if last > 0 {
			last -= first
		}
		c.Keys = validSpecs(KeySpec{Index: first, Last: last, Step: step})
	}
}

// maxSpecNumber bounds the numbers in a key spec. Those of Redis itself are below 10.
const maxSpecNumber = 1 << 16

// validSpecs returns k as a list. The list is empty if a number in k is one that Redis never
// reports. Other code relies on these bounds.
func validSpecs(k KeySpec) []KeySpec {
	for _, n := range []int{k.From, k.Last} { // these count from the end when negative
		if n < -maxSpecNumber || n > maxSpecNumber {
			return nil
		}
	}
	for _, n := range []int{k.Index, k.CountAt, k.FirstKey, k.Step} {
		if n < 0 || n > maxSpecNumber {
			return nil
		}
	}
	return []KeySpec{k}
}

func parseSpecReply(spec any) (k KeySpec, ok bool) {
	m := pairs(spec)
	begin, find := pairs(m["begin_search"]), pairs(m["find_keys"])
	at, how := pairs(begin["spec"]), pairs(find["spec"])
	switch begin["type"] {
	case "index":
		k.Index = number(at["index"])
	case "keyword":
		k.Keyword, _ = at["keyword"].(string)
		k.From = number(at["startfrom"])
	default:
		return k, false
	}
	switch find["type"] {
	case "range":
		k.Last, k.Step = number(how["lastkey"]), number(how["keystep"])
	case "keynum":
		k.KeyNum = true
		k.CountAt, k.FirstKey, k.Step = number(how["keynumidx"]), number(how["firstkey"]), number(how["keystep"])
	default:
		return k, false
	}
	return k, true
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func number(v any) int {
	n, _ := v.(int64)
	return int(n)
}

func words(v any) (ws []string) {
	for _, w := range list(v) {
		if s, ok := w.(string); ok {
			ws = append(ws, s)
		}
	}
	return ws
}

func pairs(v any) map[string]any {
	l := list(v)
	m := make(map[string]any, len(l)/2)
	for i := 0; i+1 < len(l); i += 2 {
		if name, ok := l[i].(string); ok {
			m[name] = l[i+1]
		}
	}
	return m
}
