package proxytest

import (
	"strconv"
	"strings"
	"testing"

	"leash/internal/redistest"
	"leash/proxy/resp"
)

// InfoNumber returns one field of INFO as a number.
func InfoNumber(info, name string) int {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(v))
			return n
		}
	}
	return -1
}

// Text returns the text of a bulk or verbatim string.
func Text(t testing.TB, reply string) string {
	t.Helper()
	body, ok := resp.Text([]byte(reply))
	if !ok {
		t.Fatalf("not a text: %.200q", reply)
	}
	return string(body)
}

// Fields parses a line of CLIENT LIST.
func Fields(line string) map[string]string {
	m := make(map[string]string)
	for _, f := range strings.Fields(line) {
		name, value, _ := strings.Cut(f, "=")
		m[name] = value
	}
	return m
}

// Listed returns a client's fields in CLIENT LIST, or nil if it is not listed.
func Listed(t testing.TB, asker *redistest.Client, addr string) map[string]string {
	t.Helper()
	for line := range strings.Lines(Text(t, asker.Reply(t, "CLIENT", "LIST"))) {
		if f := Fields(line); f["addr"] == addr {
			return f
		}
	}
	return nil
}

// AddrOf returns the address from which a client has connected.
func AddrOf(c *redistest.Client) string { return c.Conn().LocalAddr().String() }

// InfoLine returns one field of INFO's reply.
func InfoLine(info, field string) string {
	_, rest, _ := strings.Cut(info, "\r\n"+field+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}
