package command_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"leash/internal/proxytest"
	"leash/internal/redistest"
	"leash/proxy/command"
	"leash/proxy/resp"
)

// equalAsSets compares without regard to order.
func equalAsSets(a, b [][]byte) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, bytes.Compare)
	slices.SortFunc(b, bytes.Compare)
	return slices.EqualFunc(a, b, bytes.Equal)
}

// TestCommandListsLockCommands checks that COMMAND lists the lock commands among Redis's commands.
func TestCommandListsLockCommands(t *testing.T) {
	server := redistest.Start(t)
	l := proxytest.Start(t, []string{server.Addr})
	redis, client := proxytest.Dial(t, server.Addr), l.Dial(t)
	for _, hello := range []string{"2", "3"} {
		redis.Reply(t, "HELLO", hello)
		client.Reply(t, "HELLO", hello)
		var own [][]byte
		// the order changes while Redis resizes its table
		proxytest.Eventually(t, "COMMAND has Redis's own and Leash's", func() bool {
			all, ok := resp.Elements([]byte(redis.Reply(t, "COMMAND")))
			var ok2 bool
			own, ok2 = resp.Elements([]byte(client.Reply(t, "COMMAND")))
			return ok && ok2 && len(own) == len(all)+len(command.AllOwn) && equalAsSets(own[:len(all)], all)
		})
		client.Want(t, fmt.Sprintf(":%d\r\n", len(own)), "COMMAND", "COUNT")
		// The order is Redis's, which changes while Redis resizes its table.
		if got, ok := resp.Elements([]byte(client.Reply(t, "COMMAND", "INFO"))); !ok || len(got) != len(own) {
			t.Errorf("RESP%s: COMMAND INFO is not COMMAND: %d entries", hello, len(got))
		}
		for _, cmd := range []string{"COMMAND LIST", "COMMAND LIST FILTERBY PATTERN *",
			"COMMAND LIST FILTERBY ACLCAT write", "COMMAND LIST FILTERBY MODULE x", "COMMAND DOCS"} {
			theirs := strings.TrimLeft(redis.Reply(t, strings.Fields(cmd)...), "*%0123456789")
			ours := strings.TrimLeft(client.Reply(t, strings.Fields(cmd)...), "*%0123456789")
			added, ok := strings.CutPrefix(ours, theirs)
			if knows := strings.Contains(added, "lock.acquire"); !ok || knows == strings.Contains(cmd, "MODULE") {
				t.Errorf("RESP%s: %s: added %q", hello, cmd, added)
			}
		}
		// A lock command has the form of a Redis command with the same flags and keys.
		like := redis.Reply(t, "COMMAND", "INFO", "type", "nosuch")
		got := client.Reply(t, "COMMAND", "INFO", "Lock.TTL", "nosuch")
		for _, r := range [][2]string{{"$8\r\nlock.ttl\r\n:-2", "$4\r\ntype\r\n:2"},
			{"3\r\n+readonly\r\n+noscript", "2\r\n+readonly"}, {"2\r\n+@read", "3\r\n+@keyspace\r\n+@read"},
			{"2\r\n+RO\r\n+access", "1\r\n+RO"}} {
			got = strings.Replace(got, r[0], r[1], 1)
		}
		if got != like {
			t.Errorf("RESP%s: COMMAND INFO LOCK.TTL: got like %q, want %q", hello, got, like)
		}
		client.Want(t, "*1\r\n$1\r\nk\r\n", "COMMAND", "GETKEYS", "LOCK.ACQUIRE", "k", "BLOCK", "1")
		set := map[string]string{"2": "*", "3": "~"}[hello]
		client.Want(t, "*1\r\n*2\r\n$1\r\nk\r\n"+set+"2\r\n+RO\r\n+access\r\n", "COMMAND", "GETKEYSANDFLAGS",
			"lock.info", "k")
		if got := client.Reply(t, "COMMAND", "DOCS", "lock.release", "nosuch"); !strings.Contains(got,
			"summary\r\n$15\r\nReleases a lock\r\n") || strings.Contains(got, "lock.ttl") {
			t.Errorf("RESP%s: COMMAND DOCS: %q", hello, got)
		}
	}
}
