package proxy

import (
	"slices"

	"leash/proxy/resp"
)

// flags are the command's flags in COMMAND's reply
// (https://redis.io/docs/latest/commands/command/).
func (o *ownCommand) flags() []string {
	flags := slices.Clone(o.use.flags)
	if o.blocks {
		flags = append(flags, "blocking")
	}
	if o.keys == numKeys {
		flags = append(flags, "movablekeys")
	}
	return flags
}

func (o *ownCommand) categories() []string {
	if o.blocks {
		return append(slices.Clone(o.use.categories), "@blocking")
	}
	return o.use.categories
}

// info is the command's entry in COMMAND's reply.
func (o *ownCommand) info(resp3 bool) []byte {
	b := resp.AppendBulk(resp.AppendArray(nil, modernFields), o.name)
	b = resp.AppendInt(b, int64(o.arity))
	b = appendSet(b, resp3, o.flags()...)
	if o.keys == firstKey {
		b = append(b, ":1\r\n:1\r\n:1\r\n"...) // first key, last key, step
	} else {
		b = append(b, ":0\r\n:0\r\n:0\r\n"...)
	}
	b = appendSet(b, resp3, o.categories()...)
	b = appendSet(b, resp3) // tips
	b = o.keySpecs(b, resp3)
	return appendSet(b, resp3) // subcommands
}

func (o *ownCommand) keySpecs(b []byte, resp3 bool) []byte {
	if o.keys == noKey {
		return appendSetHeader(b, resp3, 0)
	}
	b = appendSetHeader(b, resp3, 1)
	b = resp.AppendBulk(appendPairs(b, resp3, 3), "flags")
	b = appendSet(b, resp3, o.use.keyFlags...)
	b = resp.AppendBulk(b, "begin_search")
	b = appendSpec(b, resp3, "index", 1)
	b = resp.AppendInt(resp.AppendBulk(b, "index"), 1)
	b = resp.AppendBulk(b, "find_keys")
	kind, fields := "range", [3]string{"lastkey", "keystep", "limit"}
	values := [3]int64{0, 1, 0}
	if o.keys == numKeys {
		kind, fields = "keynum", [3]string{"keynumidx", "firstkey", "keystep"}
		values = [3]int64{0, 1, 1}
	}
	b = appendSpec(b, resp3, kind, len(fields))
	for i, f := range fields {
		b = resp.AppendInt(resp.AppendBulk(b, f), values[i])
	}
	return b
}

// appendSpec begins a map that describes a part of a key specification: its type and the fields of
// the type.
func appendSpec(b []byte, resp3 bool, kind string, fields int) []byte {
	b = resp.AppendBulk(resp.AppendBulk(appendPairs(b, resp3, 2), "type"), kind)
	return appendPairs(resp.AppendBulk(b, "spec"), resp3, fields)
}

// docs is the command's value in the reply to COMMAND DOCS. redis-cli makes its hints from it.
func (o *ownCommand) docs(resp3 bool) []byte {
	fields := 4
	if len(o.arguments) == 0 {
		fields = 3
	}
	b := appendPairs(nil, resp3, fields)
	for _, pair := range [...][2]string{{"summary", o.summary}, {"since", "1.0.0"}, {"group", "leash"}} {
		b = resp.AppendBulk(resp.AppendBulk(b, pair[0]), pair[1])
	}
	if len(o.arguments) == 0 {
		return b
	}
	return appendArguments(resp.AppendBulk(b, "arguments"), resp3, o.arguments)
}

func appendArguments(b []byte, resp3 bool, all []argument) []byte {
	b = resp.AppendArray(b, len(all))
	for _, a := range all {
		b = a.append(b, resp3)
	}
	return b
}

// append writes an argument's fields in Redis's order.
func (a argument) append(b []byte, resp3 bool) []byte {
	var flags []string
	if a.optional {
		flags = append(flags, "optional")
	}
	if a.multiple {
		flags = append(flags, "multiple")
	}
	fields := 2
	for _, has := range [...]bool{a.kind == "key", a.token != "", flags != nil, a.parts != nil} {
		if has {
			fields++
		}
	}
	b = appendPairs(b, resp3, fields)
	b = resp.AppendBulk(resp.AppendBulk(b, "name"), a.name)
	b = resp.AppendBulk(resp.AppendBulk(b, "type"), a.kind)
	if a.kind == "key" {
		b = resp.AppendInt(resp.AppendBulk(b, "key_spec_index"), 0)
	}
	if a.token != "" {
		b = resp.AppendBulk(resp.AppendBulk(b, "token"), a.token)
	}
	if flags != nil {
		b = appendSet(resp.AppendBulk(b, "flags"), resp3, flags...)
	}
	if a.parts != nil {
		b = appendArguments(resp.AppendBulk(b, "arguments"), resp3, a.parts)
	}
	return b
}
