package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

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
	l := startLeash(t, []string{server.Addr})
	redis, client := dialAddr(t, server.Addr), l.dial(t)
	for _, hello := range []string{"2", "3"} {
		do(t, redis, "HELLO", hello)
		do(t, client, "HELLO", hello)
		var own [][]byte
		// the order changes while Redis resizes its table
		eventually(t, "COMMAND has Redis's own and Leash's", func() bool {
			all, ok := resp.Elements([]byte(do(t, redis, "COMMAND")))
			var ok2 bool
			own, ok2 = resp.Elements([]byte(do(t, client, "COMMAND")))
			return ok && ok2 && len(own) == len(all)+len(command.AllOwn) && equalAsSets(own[:len(all)], all)
		})
		want(t, client, fmt.Sprintf(":%d\r\n", len(own)), "COMMAND", "COUNT")
		// The order is Redis's, which changes while Redis resizes its table.
		if got, ok := resp.Elements([]byte(do(t, client, "COMMAND", "INFO"))); !ok || len(got) != len(own) {
			t.Errorf("RESP%s: COMMAND INFO is not COMMAND: %d entries", hello, len(got))
		}
		for _, cmd := range []string{"COMMAND LIST", "COMMAND LIST FILTERBY PATTERN *",
			"COMMAND LIST FILTERBY ACLCAT write", "COMMAND LIST FILTERBY MODULE x", "COMMAND DOCS"} {
			theirs := strings.TrimLeft(do(t, redis, strings.Fields(cmd)...), "*%0123456789")
			ours := strings.TrimLeft(do(t, client, strings.Fields(cmd)...), "*%0123456789")
			added, ok := strings.CutPrefix(ours, theirs)
			if knows := strings.Contains(added, "lock.acquire"); !ok || knows == strings.Contains(cmd, "MODULE") {
				t.Errorf("RESP%s: %s: added %q", hello, cmd, added)
			}
		}
		// A lock command has the form of a Redis command with the same flags and keys.
		like := do(t, redis, "COMMAND", "INFO", "type", "nosuch")
		got := do(t, client, "COMMAND", "INFO", "Lock.TTL", "nosuch")
		for _, r := range [][2]string{{"$8\r\nlock.ttl\r\n:-2", "$4\r\ntype\r\n:2"},
			{"3\r\n+readonly\r\n+noscript", "2\r\n+readonly"}, {"2\r\n+@read", "3\r\n+@keyspace\r\n+@read"},
			{"2\r\n+RO\r\n+access", "1\r\n+RO"}} {
			got = strings.Replace(got, r[0], r[1], 1)
		}
		if got != like {
			t.Errorf("RESP%s: COMMAND INFO LOCK.TTL: got like %q, want %q", hello, got, like)
		}
		want(t, client, "*1\r\n$1\r\nk\r\n", "COMMAND", "GETKEYS", "LOCK.ACQUIRE", "k", "BLOCK", "1")
		set := map[string]string{"2": "*", "3": "~"}[hello]
		want(t, client, "*1\r\n*2\r\n$1\r\nk\r\n"+set+"2\r\n+RO\r\n+access\r\n", "COMMAND", "GETKEYSANDFLAGS",
			"lock.info", "k")
		if got := do(t, client, "COMMAND", "DOCS", "lock.release", "nosuch"); !strings.Contains(got,
			"summary\r\n$15\r\nReleases a lock\r\n") || strings.Contains(got, "lock.ttl") {
			t.Errorf("RESP%s: COMMAND DOCS: %q", hello, got)
		}
	}
}
