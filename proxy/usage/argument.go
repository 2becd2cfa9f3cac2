package usage

import (
	"cmp"
	"strings"
)

// Argument is an argument of a command, as COMMAND DOCS describes it
// (https://redis.io/docs/latest/develop/reference/command-arguments/).
type Argument struct {
	Name     string
	Kind     string // key, string, integer, pattern, pure-token, block or oneof
	Token    string // the token before the argument, or the argument itself
	Optional bool
	Multiple bool
	Parts    []Argument // of a block, or the choices of a oneof
}

// argumentKinds are the types of arguments that are not strings, by name.
var argumentKinds = map[string]string{
	"key": "key", "pattern": "pattern", "numkeys": "integer", "milliseconds": "integer",
	"count": "integer", "offset": "integer",
	"token": "integer", "permits": "integer", "replicas": "integer", "quorum": "integer",
}

// Arg returns an argument that is a value. token is the word before it, or "" for none.
func Arg(token, name string) Argument {
	kind := argumentKinds[name]
	if kind == "" {
		kind = "string"
	}
	return Argument{Name: name, Kind: kind, Token: token}
}

// Word returns an argument that is a word by itself.
func Word(token string) Argument {
	return Argument{Name: strings.ToLower(token), Kind: "pure-token", Token: token}
}

// Optional returns arguments that are given together or not at all.
func Optional(parts ...Argument) Argument {
	a := parts[0]
	if len(parts) > 1 {
		a = Argument{Name: strings.ToLower(cmp.Or(a.Token, a.Name) + "_block"), Kind: "block", Parts: parts}
	}
	a.Optional = true
	return a
}

// Together returns arguments that are one choice of OneOf.
func Together(parts ...Argument) Argument {
	a := Optional(parts...)
	a.Optional = false
	return a
}

// OneOf returns an argument that has one of several forms. token is the word before it, or "".
func OneOf(token string, choices ...Argument) Argument {
	a := Argument{Name: strings.ToLower(token), Kind: "oneof", Token: token, Parts: choices}
	if token == "" {
		a.Name = choices[0].Name + "_or_" + choices[len(choices)-1].Name
	}
	return a
}

// OneWord is OneOf with words.
func OneWord(token string, words ...string) Argument {
	choices := make([]Argument, len(words))
	for i, w := range words {
		choices[i] = Word(w)
	}
	return OneOf(token, choices...)
}

// Repeated returns an argument that may be given several times.
func Repeated(a Argument) Argument {
	a.Multiple = true
	return a
}

// usage returns the argument as Redis writes it: tokens in capitals, optional ones in brackets.
func (a Argument) usage() string {
	text := a.Name
	switch a.Kind {
	case "pure-token":
		text = a.Token
	case "block":
		text = usageOf(a.Parts, " ")
	case "oneof":
		if text = usageOf(a.Parts, " | "); !a.Optional || a.Token != "" {
			text = "<" + text + ">"
		}
	}
	if a.Token != "" && a.Kind != "pure-token" {
		text = a.Token + " " + text
	}
	switch {
	case a.Multiple && a.Optional && a.Token == "":
		text += " ..."
	case a.Multiple && a.Kind == "block":
		text += " [" + text + " ...]"
	case a.Multiple:
		text += " [" + a.Name + " ...]"
	}
	if a.Optional {
		text = "[" + text + "]"
	}
	return text
}

func usageOf(all []Argument, separator string) string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = a.usage()
	}
	return strings.Join(texts, separator)
}

// Usage returns the command as Redis writes it.
func (o *Command) Usage() string {
	name := strings.ToUpper(strings.Replace(o.Name, "|", " ", 1))
	if o.Subs == nil {
		return strings.TrimSpace(name + " " + usageOf(o.Arguments, " "))
	}
	words := make([]string, len(o.Subs))
	for i := range o.Subs {
		_, sub, _ := strings.Cut(o.Subs[i].Name, "|")
		words[i] = strings.ToUpper(sub)
	}
	return name + " <" + strings.Join(words, " | ") + ">"
}
