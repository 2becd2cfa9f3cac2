package command_test

import (
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/command"
	"leash/proxy/resp"
)

// TestLockHelp checks that LOCK.HELP is an array of lines, like Redis's HELP subcommands.
func TestLockHelp(t *testing.T) {
	l := proxytest.Start(t, []string{redistest.Start(t).Addr})
	client := l.Dial(t)
	lines, ok := resp.Elements([]byte(client.Reply(t, "lock.help")))
	if !ok || len(lines) != 1+2*len(command.AllOwn) {
		t.Fatalf("%d lines", len(lines))
	}
	for i, o := range command.AllOwn {
		if got := string(lines[1+2*i]); got != "+"+o.Usage()+"\r\n" {
			t.Errorf("got %q, want the usage %q", got, o.Usage())
		}
	}
	client.Want(t, "-ERR wrong number of arguments for 'lock.help' command\r\n", "LOCK.HELP", "LOCK.ACQUIRE")
	client.Want(t, "+OK\r\n", "MULTI")
	client.Want(t, "-ERR 'LOCK.HELP' is not allowed inside MULTI: a lock is not part of a transaction\r\n",
		"LOCK.HELP")
	client.Want(t, "+OK\r\n", "DISCARD")
	client.Want(t, "-ERR The command has no key arguments\r\n", "COMMAND", "GETKEYS", "LOCK.HELP", "x")
}
