package proxytest

import (
	"strings"
	"testing"

	"leash/internal/redistest"
)

// RunTranscript runs the lines on a new connection. It returns all replies without what differs
// between connections or moments.
func RunTranscript(t *testing.T, addr, proto, text string, pipelined bool) string {
	t.Helper()
	c := Dial(t, addr)
	c.Reply(t, "HELLO", proto)
	for _, key := range []string{"a", "b", "c", "l", "m", "s", "h"} {
		c.Reply(t, "DEL", "{k}"+key)
	}
	var all strings.Builder
	lines := strings.Split(text, "\n")
	read := func() {
		reply, err := c.Read()
		if err != nil {
			reply = "closed"
		}
		all.WriteString(reply)
	}
	var raw strings.Builder
	for _, line := range lines {
		cmd := redistest.Command(strings.Fields(strings.ReplaceAll(line, "\\x20", "\t"))...)
		if pipelined {
			raw.WriteString(cmd)
			continue
		}
		if err := c.Send(cmd); err != nil {
			t.Fatal(err)
		}
		read()
	}
	if pipelined {
		return Exchange(t, addr, redistest.Command("HELLO", proto)+raw.String())
	}
	return all.String()
}
