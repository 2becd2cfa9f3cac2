package usage

import (
	"slices"

	"leash/proxy/resp"
)

// flags are the command's flags in COMMAND's reply
// (https://redis.io/docs/latest/commands/command/).
func (o *Command) flags() []string {
	flags := slices.Clone(o.Use.Flags)
	if o.Blocks {
		flags = append(flags, "blocking")
	}
	if o.Keys == NumKeys {
		flags = append(flags, "movablekeys")
	}
	return flags
}

func (o *Command) Categories() []string {
	if o.Blocks {
		return append(slices.Clone(o.Use.Categories), "@blocking")
	}
	return o.Use.Categories
}

// infoFields is the number of fields of a command in COMMAND since Redis 7.
const infoFields = 10

// Info is the command's entry in COMMAND's reply.
func (o *Command) Info(resp3 bool) []byte {
	b := resp.AppendBulk(resp.AppendArray(nil, infoFields), o.Name)
	b = resp.AppendInt(b, int64(o.Arity))
	b = resp.AppendSet(b, resp3, o.flags()...)
	if o.Keys == FirstKey {
		b = append(b, ":1\r\n:1\r\n:1\r\n"...) // first key, last key, step
	} else {
		b = append(b, ":0\r\n:0\r\n:0\r\n"...)
	}
	b = resp.AppendSet(b, resp3, o.Categories()...)
	b = resp.AppendSet(b, resp3) // tips
	b = o.keySpecs(b, resp3)
	if o.Subs == nil {
		return resp.AppendSet(b, resp3)
	}
	b = resp.AppendArray(b, len(o.Subs))
	for i := range o.Subs {
		b = append(b, o.Subs[i].Info(resp3)...)
	}
	return b
}

func (o *Command) keySpecs(b []byte, resp3 bool) []byte {
	if o.Keys == NoKey {
		return resp.AppendSetHeader(b, resp3, 0)
	}
	b = resp.AppendSetHeader(b, resp3, 1)
	b = resp.AppendBulk(resp.AppendPairs(b, resp3, 3), "flags")
	b = resp.AppendSet(b, resp3, o.Use.KeyFlags...)
	b = resp.AppendBulk(b, "begin_search")
	b = appendSpec(b, resp3, "index", 1)
	b = resp.AppendInt(resp.AppendBulk(b, "index"), 1)
	b = resp.AppendBulk(b, "find_keys")
	kind, fields := "range", [3]string{"lastkey", "keystep", "limit"}
	values := [3]int64{0, 1, 0}
	if o.Keys == NumKeys {
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
	b = resp.AppendBulk(resp.AppendBulk(resp.AppendPairs(b, resp3, 2), "type"), kind)
	return resp.AppendPairs(resp.AppendBulk(b, "spec"), resp3, fields)
}

// Docs is the command's value in the reply to COMMAND DOCS. redis-cli makes its hints from it.
func (o *Command) Docs(resp3 bool) []byte {
	fields := 3
	if len(o.Arguments) > 0 || o.Subs != nil {
		fields = 4
	}
	b := resp.AppendPairs(nil, resp3, fields)
	for _, pair := range [...][2]string{{"summary", o.Summary}, {"since", "1.0.0"}, {"group", "leash"}} {
		b = resp.AppendBulk(resp.AppendBulk(b, pair[0]), pair[1])
	}
	if o.Subs != nil {
		b = resp.AppendPairs(resp.AppendBulk(b, "subcommands"), resp3, len(o.Subs))
		for i := range o.Subs {
			b = append(resp.AppendBulk(b, o.Subs[i].Name), o.Subs[i].Docs(resp3)...)
		}
		return b
	}
	if len(o.Arguments) == 0 {
		return b
	}
	return appendArguments(resp.AppendBulk(b, "arguments"), resp3, o.Arguments)
}

func appendArguments(b []byte, resp3 bool, all []Argument) []byte {
	b = resp.AppendArray(b, len(all))
	for _, a := range all {
		b = a.append(b, resp3)
	}
	return b
}

// append writes an argument's fields in Redis's order.
func (a Argument) append(b []byte, resp3 bool) []byte {
	var flags []string
	if a.Optional {
		flags = append(flags, "optional")
	}
	if a.Multiple {
		flags = append(flags, "multiple")
	}
	fields := 2
	for _, has := range [...]bool{a.Kind == "key", a.Token != "", flags != nil, a.Parts != nil} {
		if has {
			fields++
		}
	}
	b = resp.AppendPairs(b, resp3, fields)
	b = resp.AppendBulk(resp.AppendBulk(b, "name"), a.Name)
	b = resp.AppendBulk(resp.AppendBulk(b, "type"), a.Kind)
	if a.Kind == "key" {
		b = resp.AppendInt(resp.AppendBulk(b, "key_spec_index"), 0)
	}
	if a.Token != "" {
		b = resp.AppendBulk(resp.AppendBulk(b, "token"), a.Token)
	}
	if flags != nil {
		b = resp.AppendSet(resp.AppendBulk(b, "flags"), resp3, flags...)
	}
	if a.Parts != nil {
		b = appendArguments(resp.AppendBulk(b, "arguments"), resp3, a.Parts)
	}
	return b
}
