package proxy

import "strings"

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
	"key": "key", "pattern": "pattern", "numkeys": "integer", "milliseconds": "integer",
	"count": "integer", "token": "integer", "permits": "integer", "replicas": "integer", "quorum": "integer",
}

// arg returns an argument that is a value. token is the word before it, or "" for none.
func arg(token, name string) argument {
	kind := argumentKinds[name]
	if kind == "" {
		kind = "string"
	}
	return argument{name: name, kind: kind, token: token}
}

// word returns an argument that is a word by itself.
func word(token string) argument {
	return argument{name: strings.ToLower(token), kind: "pure-token", token: token}
}

// optional returns arguments that are given together or not at all.
func optional(parts ...argument) argument {
	a := parts[0]
	if len(parts) > 1 {
		a = argument{name: strings.ToLower(a.token + "_block"), kind: "block", parts: parts}
	}
	a.optional = true
	return a
}

// together returns arguments that are one choice of oneOf.
func together(parts ...argument) argument {
	a := optional(parts...)
	a.optional = false
	return a
}

// oneOf returns an argument that has one of several forms. token is the word before it, or "".
func oneOf(token string, choices ...argument) argument {
	a := argument{name: strings.ToLower(token), kind: "oneof", token: token, parts: choices}
	if token == "" {
		a.name = choices[0].name + "_or_" + choices[len(choices)-1].name
	}
	return a
}

// repeated returns an argument that can be repeated.
func repeated(a argument) argument {
	a.multiple = true
	return a
}

// usage returns the argument as Redis writes it: tokens in capitals, optional ones in brackets.
func (a argument) usage() string {
	text := a.name
	switch a.kind {
	case "pure-token":
		text = a.token
	case "block":
		text = usageOf(a.parts, " ")
	case "oneof":
		if text = usageOf(a.parts, " | "); !a.optional || a.token != "" {
			text = "<" + text + ">"
		}
	}
	if a.token != "" && a.kind != "pure-token" {
		text = a.token + " " + text
	}
	switch {
	case a.multiple && a.optional && a.token == "":
		text += " ..."
	case a.multiple:
		text += " [" + a.name + " ...]"
	}
	if a.optional {
		text = "[" + text + "]"
	}
	return text
}

func usageOf(all []argument, separator string) string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = a.usage()
	}
	return strings.Join(texts, separator)
}

// usage returns the command as Redis writes it.
func (o *ownCommand) usage() string {
	return strings.TrimSpace(strings.ToUpper(o.name) + " " + usageOf(o.arguments, " "))
}

// Arguments that several commands have.
var (
	keyArg      = arg("", "key")
	keysArg     = repeated(keyArg)
	blockArg    = optional(arg("BLOCK", "milliseconds"))
	leaseArg    = optional(oneOf("", arg("LEASE", "milliseconds"), arg("TTL", "milliseconds")))
	requestArg  = optional(arg("ID", "request"))
	ownerArg    = optional(arg("OWNER", "id"), requestArg)
	maxHoldArg  = optional(arg("MAXHOLD", "milliseconds"))
	idleArg     = optional(arg("IDLE", "milliseconds"))
	replicasArg = optional(arg("REPLICAS", "replicas"))
	onLossArg   = optional(oneOf("ONLOSS", word("CLOSE"), word("ERROR")))
	onCloseArg  = optional(oneOf("ONCLOSE", word("RELEASE"), word("EXPIRE")))
	modeArg     = optional(oneOf("", word("READ"), word("WRITE")))
	whoseArg    = optional(oneOf("", arg("TOKEN", "token"), arg("OWNER", "id")))
)
