package proxy

import (
	"slices"
	"strings"
)

// argument is an argument of a command, as COMMAND DOCS describes it
// (https://redis.io/docs/latest/develop/reference/command-arguments/).
type argument struct {
	name     string
	kind     string // key, string, integer, pattern, pure-token, block or oneof
	token    string // the token before the argument, or the argument itself
	optional bool
	multiple bool
	parts    []argument // of a block, or the choices of a oneof
}

// argumentKinds are the types of arguments that are not strings, by name.
var argumentKinds = map[string]string{
	"key": "key", "pattern": "pattern", "numkeys": "integer", "milliseconds": "integer", "count": "integer", "token": "integer",
	"permits": "integer", "replicas": "integer", "quorum": "integer",
}

// parseUsages fills in the fields that are derived from usage. It panics if a usage is invalid.
func parseUsages(commands []ownCommand) []ownCommand {
	for i := range commands {
		o := &commands[i]
		name, rest, _ := strings.Cut(o.usage, " ")
		p := &usageParser{words: strings.Fields(strings.NewReplacer("[", " [ ", "]", " ] ", "<", " < ", ">", " > ").Replace(rest))}
		o.name, o.options = strings.ToLower(name), p.sequence()
		if len(p.words) > 0 {
			panic("proxy: usage of " + o.name + ": what is " + p.words[0])
		}
		required, open := 1, false
		for _, a := range o.options {
			open = open || a.optional || a.multiple
			if !a.optional {
				required += a.length()
			}
		}
		if o.arity = required; open {
			o.arity = -required
		}
		switch {
		case len(o.options) == 0:
		case o.options[0].kind == "key":
			o.keys = firstKey
		case o.options[0].name == "numkeys":
			o.keys = numKeys
		}
	}
	return commands
}

// length returns the smallest number of words of an argument.
func (a argument) length() int {
	n := 1
	switch a.kind {
	case "block":
		n = 0
		for _, p := range a.parts {
			if !p.optional {
				n += p.length()
			}
		}
	case "oneof":
		n = slices.MinFunc(a.parts, func(a, b argument) int { return a.length() - b.length() }).length()
	case "pure-token":
		return 1
	}
	if a.token != "" {
		n++
	}
	return n
}

// usageParser parses a usage. Words in small letters are arguments. A word in capitals is the token
// of the argument after it, or an argument by itself if none follows. "[…]" is optional. "a | b"
// and "TOKEN <A | B>" are choices of one. "a [a ...]" is one or more, and "[a ...]" any number.
type usageParser struct{ words []string }

func (p *usageParser) next(word string) bool {
	if len(p.words) == 0 || p.words[0] != word {
		return false
	}
	p.words = p.words[1:]
	return true
}

// sequence reads arguments up to the end, a "|", a "]" or a ">".
func (p *usageParser) sequence() (all []argument) {
	for len(p.words) > 0 && !strings.Contains("|]>", p.words[0]) {
		if p.next("[") {
			if last := len(all) - 1; last >= 0 && p.repeats(all[last].name) {
				all[last].multiple = true
				continue
			}
			a := p.choices()
			a.optional = true
			all = append(all, a)
			p.next("]")
			continue
		}
		all = append(all, p.argument())
	}
	return all
}

// repeats reads "name ...]", which means that the argument before may be repeated.
func (p *usageParser) repeats(name string) bool {
	if len(p.words) < 3 || p.words[0] != name || p.words[1] != "..." {
		return false
	}
	p.words = p.words[3:]
	return true
}

// choices reads the text between brackets.
func (p *usageParser) choices() argument {
	var choices []argument
	for more := true; more; more = p.next("|") {
		choices = append(choices, block(p.sequence()))
	}
	if len(choices) == 1 {
		return choices[0]
	}
	return argument{name: choices[0].name + "_or_" + choices[len(choices)-1].name, kind: "oneof", parts: choices}
}

// block joins several arguments to one.
func block(parts []argument) argument {
	if len(parts) == 1 {
		return parts[0]
	}
	return argument{name: strings.ToLower(parts[0].token + "_block"), kind: "block", parts: parts}
}

// argument reads one argument: a token, a name or a choice. A token may come before a name or a
// choice.
func (p *usageParser) argument() argument {
	if p.next("<") {
		a := p.choices()
		p.next(">")
		return a
	}
	word := p.words[0]
	p.words = p.words[1:]
	if word == strings.ToLower(word) {
		return p.named(word, "")
	}
	if p.next("<") {
		a := p.choices()
		a.name, a.token = strings.ToLower(word), word
		p.next(">")
		return a
	}
	if len(p.words) > 0 && p.words[0] == strings.ToLower(p.words[0]) && !strings.ContainsAny(p.words[0], "[]<>|") {
		name := p.words[0]
		p.words = p.words[1:]
		return p.named(name, word)
	}
	return argument{name: strings.ToLower(word), kind: "pure-token", token: word}
}

func (p *usageParser) named(name, token string) argument {
	kind := argumentKinds[name]
	if kind == "" {
		kind = "string"
	}
	return argument{name: name, kind: kind, token: token, multiple: p.next("...")}
}
