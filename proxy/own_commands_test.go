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

// TestDocsHaveRedisForm checks that COMMAND DOCS describes arguments byte for byte as Redis
// describes a command with the same usage.
func TestDocsHaveRedisForm(t *testing.T) {
	redis := dialAddr(t, redistest.Start(t).Addr)
	for _, row := range []struct {
		ownCommand
		ours, theirs string // the name of an argument
		usage        string
	}{
		{
			ownCommand{name: "lmpop", arguments: []argument{arg("", "numkeys"), keysArg, oneOf("", word("LEFT"), word("RIGHT")), optional(arg("COUNT", "count"))}},
			"left_or_right", "where", "LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
		},
		{
			ownCommand{name: "sintercard", arguments: []argument{arg("", "numkeys"), keysArg, optional(arg("LIMIT", "count"))}},
			"count", "limit", "SINTERCARD numkeys key [key ...] [LIMIT count]",
		},
	} {
		if got := row.ownCommand.usage(); got != row.usage {
			t.Errorf("got the usage %q, want %q", got, row.usage)
		}
		for _, resp3 := range []bool{false, true} {
			do(t, redis, "HELLO", map[bool]string{false: "2", true: "3"}[resp3])
			theirs := do(t, redis, "COMMAND", "DOCS", row.name)
			_, theirs, _ = strings.Cut(theirs, "$9\r\narguments\r\n")
			ours := string(appendArguments(nil, resp3, row.arguments))
			ours = strings.Replace(ours, string(resp.AppendBulk(nil, row.ours)), string(resp.AppendBulk(nil, row.theirs)), 1)
			if ours != theirs {
				t.Errorf("%s: got %q, redis has %q", row.usage, ours, theirs)
			}
		}
	}
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
		if got := string(lines[1+2*i]); got != "+"+o.usage()+"\r\n" {
			t.Errorf("got %q, want the usage %q", got, o.usage())
		}
	}
	want(t, client, "-ERR wrong number of arguments for 'lock.help' command\r\n", "LOCK.HELP", "LOCK.ACQUIRE")
	want(t, client, "+OK\r\n", "MULTI")
	want(t, client, "-ERR 'LOCK.HELP' is not allowed inside MULTI: a lock is not part of a transaction\r\n", "LOCK.HELP")
	want(t, client, "+OK\r\n", "DISCARD")
	want(t, client, "-ERR The command has no key arguments\r\n", "COMMAND", "GETKEYS", "LOCK.HELP", "x")
}
