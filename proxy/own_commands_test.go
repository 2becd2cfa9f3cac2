package proxy

import (
	"slices"
	"strings"
	"testing"

	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/proxy/resp"
)

// TestOwnCommandsAreThoseOfLockcmd checks that exactly the commands of lockcmd are described.
func TestOwnCommandsAreThoseOfLockcmd(t *testing.T) {
	var told []string
	for _, o := range ownCommands {
		if o.name != "lock.help" && o.name != "lock.list" { // answered by the session
			told = append(told, strings.ToUpper(o.name))
		}
	}
	slices.Sort(told)
	if there := lockcmd.Commands(); !slices.Equal(told, there) {
		t.Errorf("described: %v, existing: %v", told, there)
	}
}

func TestUsage(t *testing.T) {
	o := parseUsages([]ownCommand{{usage: "LOCK.X numkeys key [key ...] [TTL milliseconds | LEASE milliseconds] [OWNER id [ID request]] [ALL] [TOKENS token [token ...]]"}})[0]
	optional := func(a argument) argument { a.optional = true; return a }
	several := func(a argument) argument { a.multiple = true; return a }
	ms := argument{name: "milliseconds", kind: "integer", token: "TTL"}
	lease := ms
	lease.token = "LEASE"
	want := []argument{
		{name: "numkeys", kind: "integer"},
		several(argument{name: "key", kind: "key"}),
		optional(argument{name: "milliseconds_or_milliseconds", kind: "oneof", parts: []argument{ms, lease}}),
		optional(argument{name: "owner_block", kind: "block", parts: []argument{
			{name: "id", kind: "string", token: "OWNER"}, optional(argument{name: "request", kind: "string", token: "ID"}),
		}}),
		optional(argument{name: "all", kind: "pure-token", token: "ALL"}),
		optional(several(argument{name: "token", kind: "integer", token: "TOKENS"})),
	}
	if !slices.EqualFunc(o.options, want, sameArgument) {
		t.Errorf("got %+v, want %+v", o.options, want)
	}
	if o.name != "lock.x" || o.arity != -3 || o.keys != numKeys {
		t.Errorf("got %+v", o)
	}
	for usage, arity := range map[string]int{"A": 1, "A key": 2, "A key [X]": -2, "A key AT milliseconds [id ...]": -4, "A [id ...]": -1, "A ON | OFF": 0, "A <ON | OFF>": 2, "A ON>": 0, "A key AT <X milliseconds | Y>": 4} {
		func() {
			defer func() {
				if got := recover(); (got != nil) != (arity == 0) {
					t.Errorf("%s: %v", usage, got)
				}
			}()
			if o := parseUsages([]ownCommand{{usage: usage}})[0]; o.arity != arity {
				t.Errorf("%s: arity %d, want %d", usage, o.arity, arity)
			}
		}()
	}
}

// TestDocsHaveRedisForm checks that COMMAND DOCS describes arguments byte for byte as Redis
// describes a command with the same usage.
func TestDocsHaveRedisForm(t *testing.T) {
	redis := dialAddr(t, redistest.Start(t).Addr)
	for usage, names := range map[string][2]string{ // ours and Redis's name of an argument
		"LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]": {"left_or_right", "where"},
		"SINTERCARD numkeys key [key ...] [LIMIT count]":           {"count", "limit"},
	} {
		o := parseUsages([]ownCommand{{usage: usage}})[0]
		for _, resp3 := range []bool{false, true} {
			do(t, redis, "HELLO", map[bool]string{false: "2", true: "3"}[resp3])
			theirs := do(t, redis, "COMMAND", "DOCS", o.name)
			_, theirs, _ = strings.Cut(theirs, "$9\r\narguments\r\n")
			ours := string(appendArguments(nil, resp3, o.options))
			ours = strings.Replace(ours, string(resp.AppendBulk(nil, names[0])), string(resp.AppendBulk(nil, names[1])), 1)
			if ours != theirs {
				t.Errorf("%s: got %q, redis has %q", usage, ours, theirs)
			}
		}
	}
}

func sameArgument(a, b argument) bool {
	return a.name == b.name && a.kind == b.kind && a.token == b.token && a.optional == b.optional && a.multiple == b.multiple &&
		slices.EqualFunc(a.parts, b.parts, sameArgument)
}

// TestLockHelp checks that LOCK.HELP is an array of lines, like Redis's HELP subcommands.
func TestLockHelp(t *testing.T) {
	l := startLeash(t, []string{redistest.Start(t).Addr})
	client := l.dial(t)
	lines, ok := resp.Elements([]byte(do(t, client, "lock.help")))
	if !ok || len(lines) != 1+2*len(ownCommands) {
		t.Fatalf("%d lines", len(lines))
	}
	for i, o := range ownCommands {
		if got := string(lines[1+2*i]); got != "+"+o.usage+"\r\n" {
			t.Errorf("got %q, want the usage %q", got, o.usage)
		}
	}
	want(t, client, "-ERR wrong number of arguments for 'lock.help' command\r\n", "LOCK.HELP", "LOCK.ACQUIRE")
	want(t, client, "+OK\r\n", "MULTI")
	want(t, client, "-ERR 'LOCK.HELP' is not allowed inside MULTI: a lock is not part of a transaction\r\n", "LOCK.HELP")
	want(t, client, "+OK\r\n", "DISCARD")
	want(t, client, "-ERR The command has no key arguments\r\n", "COMMAND", "GETKEYS", "LOCK.HELP", "x")
}
