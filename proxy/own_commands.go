package proxy

import (
	"slices"

	"leash/proxy/resp"
)

// ownCommand is what COMMAND says of a command that Leash has and Redis has not
// (https://redis.io/docs/latest/commands/command/). Its key is the first argument.
type ownCommand struct {
	name       string // lower case
	arity      int    // at least -arity arguments with the name
	flags      []string
	categories []string
	keyFlags   []string
	summary    string
}

// ownCommands are all of them.
var ownCommands = [...]ownCommand{
	{"lock.acquire", -2, []string{"write", "denyoom", "noscript", "blocking"}, []string{"@write", "@slow", "@blocking"}, []string{"RW", "access", "update"},
		"Takes a lock that is renewed while the connection lives"},
	{"lock.release", -2, []string{"write", "noscript"}, []string{"@write", "@slow"}, []string{"RW", "access", "delete"}, "Releases a lock"},
	{"lock.ttl", -2, []string{"readonly", "noscript", "fast"}, []string{"@read", "@fast"}, []string{"RO", "access"}, "Returns for how many ms a lock is certainly held"},
	{"lock.info", -2, []string{"readonly", "noscript"}, []string{"@read", "@slow"}, []string{"RO", "access"}, "Returns who holds a lock"},
}

// ownCommandOf finds the command of that name, nil if it is not Leash's own.
func ownCommandOf(name []byte) *ownCommand {
	i := slices.IndexFunc(ownCommands[:], func(o ownCommand) bool { return isWord(name, o.name) })
	if i < 0 {
		return nil
	}
	return &ownCommands[i]
}

func (o *ownCommand) hasCategory(name string) bool { return slices.Contains(o.categories, "@"+name) }

// info is the command's entry in COMMAND's reply.
func (o *ownCommand) info(resp3 bool) []byte {
	b := resp.AppendBulk(resp.AppendArray(nil, modernFields), o.name)
	b = resp.AppendInt(b, int64(o.arity))
	b = appendSet(b, resp3, o.flags...)
	b = append(b, ":1\r\n:1\r\n:1\r\n"...) // the first key is the last
	b = appendSet(b, resp3, o.categories...)
	b = appendSet(b, resp3) // tips
	b = o.keySpecs(b, resp3)
	return appendSet(b, resp3) // subcommands
}

func (o *ownCommand) keySpecs(b []byte, resp3 bool) []byte {
	b = appendSetHeader(b, resp3, 1)
	b = resp.AppendBulk(appendPairs(b, resp3, 3), "flags")
	b = appendSet(b, resp3, o.keyFlags...)
	b = resp.AppendBulk(b, "begin_search")
	b = appendSpec(b, resp3, "index", 1)
	b = resp.AppendInt(resp.AppendBulk(b, "index"), 1)
	b = resp.AppendBulk(b, "find_keys")
	b = appendSpec(b, resp3, "range", 3)
	b = resp.AppendInt(resp.AppendBulk(b, "lastkey"), 0)
	b = resp.AppendInt(resp.AppendBulk(b, "keystep"), 1)
	return resp.AppendInt(resp.AppendBulk(b, "limit"), 0)
}

// appendSpec begins a map of a type and of what that type has.
func appendSpec(b []byte, resp3 bool, kind string, fields int) []byte {
	b = resp.AppendBulk(resp.AppendBulk(appendPairs(b, resp3, 2), "type"), kind)
	return appendPairs(resp.AppendBulk(b, "spec"), resp3, fields)
}

// docs is the command's value in COMMAND DOCS' reply.
func (o *ownCommand) docs(resp3 bool) []byte {
	b := appendPairs(nil, resp3, 4)
	for _, pair := range [...][2]string{{"summary", o.summary}, {"since", "1.0.0"}, {"group", "leash"}} {
		b = resp.AppendBulk(resp.AppendBulk(b, pair[0]), pair[1])
	}
	b = append(resp.AppendBulk(b, "arguments"), "*1\r\n"...)
	b = appendPairs(b, resp3, 3)
	b = resp.AppendBulk(resp.AppendBulk(b, "name"), "key")
	b = resp.AppendBulk(resp.AppendBulk(b, "type"), "key")
	return resp.AppendInt(resp.AppendBulk(b, "key_spec_index"), 0)
}
