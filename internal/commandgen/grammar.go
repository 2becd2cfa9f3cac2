package commandgen

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// groups are those of COMMAND DOCS whose commands read or write data.
var groups = map[string]kind{
	"string": stringKey, "bitmap": stringKey, "hyperloglog": hyperLogLogKey, "geo": geoKey, "hash": hashKey, "list": listKey,
	"set": setKey, "sorted-set": sortedSetKey, "stream": streamKey, "generic": anyKey, "scripting": anyKey,
}

// LeftOut are data commands that are never made, and why.
var LeftOut = map[string]string{
	"MIGRATE":       "its addresses are those of servers behind Leash",
	"PFDEBUG":       "for Redis's own tests",
	"PFSELFTEST":    "for Redis's own tests",
	"RANDOMKEY":     "answers by chance, and which keys there are is seen by KEYS",
	"SCAN":          "its cursors are the server's own: walk to the end instead",
	"SCRIPT|DEBUG":  "stops the server",
	"SCRIPT|KILL":   "depends on time",
	"FUNCTION|KILL": "depends on time",
	"WAIT":          "tells of replicas, not of data",
}

// Grammar is a server's description of its commands.
type Grammar struct {
	specs []spec
	dumps []string // values of every type as DUMP gives them
	lib   string   // FUNCTION DUMP of a library
}

// spec is one command or subcommand.
type spec struct {
	name string // upper case: "XGROUP|CREATE"
	kind kind   // of the keys it works on
	args []argument
}

// argument is a node of a command's argument tree:
// https://redis.io/docs/latest/develop/reference/command-arguments/
type argument struct {
	name, typ, token string
	optional         bool
	multiple         bool
	multipleToken    bool // each repetition has the token
	args             []argument
}

// Learn reads the grammar of a server. It deletes all data of the server.
func Learn(ctx context.Context, rdb *redis.Client) (*Grammar, error) {
	docs, err := rdb.Do(ctx, "COMMAND", "DOCS").Slice()
	if err != nil {
		return nil, fmt.Errorf("learn the grammar: %w", err)
	}
	g := &Grammar{}
	for i := 0; i+1 < len(docs); i += 2 {
		g.add(docs[i].(string), fields(docs[i+1]))
	}
	slices.SortFunc(g.specs, func(a, b spec) int { return strings.Compare(a.name, b.name) })
	if err := g.dump(ctx, rdb); err != nil {
		return nil, fmt.Errorf("learn the format of DUMP: %w", err)
	}
	return g, nil
}

// Commands are the names that a Generator can make, upper case: "XGROUP|CREATE".
func (g *Grammar) Commands() (names []string) {
	for _, s := range g.specs {
		if LeftOut[s.name] == "" {
			names = append(names, s.name)
		}
	}
	return names
}

func (g *Grammar) add(name string, doc map[string]any) {
	kind, ok := groups[fmt.Sprint(doc["group"])]
	if !ok {
		return
	}
	subs, _ := doc["subcommands"].([]any)
	for i := 0; i+1 < len(subs); i += 2 {
		g.add(subs[i].(string), fields(subs[i+1]))
	}
	if len(subs) == 0 {
		g.specs = append(g.specs, spec{strings.ToUpper(name), kind, arguments(doc["arguments"])})
	}
}

func arguments(doc any) (args []argument) {
	list, _ := doc.([]any)
	for _, one := range list {
		f := fields(one)
		a := argument{args: arguments(f["arguments"])}
		a.name, _ = f["name"].(string)
		a.typ, _ = f["type"].(string)
		a.token, _ = f["token"].(string)
		flags, _ := f["flags"].([]any)
		a.optional = slices.Contains(flags, "optional")
		a.multiple = slices.Contains(flags, "multiple")
		a.multipleToken = slices.Contains(flags, "multiple_token")
		args = append(args, a)
	}
	return args
}

// fields turns RESP2's flat list of names and values into a map.
func fields(doc any) map[string]any {
	list, _ := doc.([]any)
	m := make(map[string]any, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		m[fmt.Sprint(list[i])] = list[i+1]
	}
	return m
}

// dump collects values for RESTORE and FUNCTION RESTORE.
func (g *Grammar) dump(ctx context.Context, rdb *redis.Client) error {
	for _, write := range [][]any{
		{"SET", "k", "restored"}, {"SET", "k", "77"}, {"RPUSH", "k", "a", "b", "3"}, {"SADD", "k", "1", "2"}, {"SADD", "k", "w1", "w2"},
		{"HSET", "k", "w1", "v"}, {"ZADD", "k", "1.5", "w1", "2", "w2"}, {"XADD", "k", "1-1", "f", "v"}, {"PFADD", "k", "w1"},
	} {
		value := &redis.StringCmd{}
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Do(ctx, write...)
			value = p.Dump(ctx, "k")
			p.Del(ctx, "k")
			return nil
		})
		if err != nil {
			return err
		}
		g.dumps = append(g.dumps, value.Val())
	}
	if err := rdb.FunctionLoad(ctx, library(1, 1)).Err(); err != nil {
		return err
	}
	var err error
	if g.lib, err = rdb.FunctionDump(ctx).Result(); err != nil {
		return err
	}
	return rdb.FunctionFlush(ctx).Err()
}
