// Package info is INFO: what a single Redis with all keys would tell of itself, and the section of
// Leash.
package info

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// Leash is what INFO tells of Leash itself. Its methods do not block.
type Leash interface {
	// Own returns the fields of Redis's INFO for which Leash has values of its own.
	Own() map[string]string
	// Fields gives every field of the section about Leash to line, in order. A value is a string or
	// an integer.
	Fields(line func(name string, value any))
}

// Run answers INFO (https://redis.io/docs/latest/commands/info/) as one Redis would that has all
// keys. The reply is one node's text with these changes:
//
//   - Values that can be added up are sums over all masters.
//   - Fields about clients are Leash's own.
//   - A section "Leash" follows, where Redis puts the sections of modules.
//   - A field is left out if a master that it needs does not answer.
//
// It returns false when the session ends.
func Run(r *route.Router, leash Leash, c *command.Command, cmd resp.Command) bool {
	switch {
	case !r.Ready(c, cmd):
		return true
	case len(cmd.Args) == 2 && resp.IsWord(cmd.Args[1], "LEASH"):
		return r.Answer(resp.AppendText(nil, r.Lane.RESP3, string(section(leash))))
	case !r.AdoptTopology():
		return false
	case r.Keyless() == nil:
		return r.Fail(call.ErrorUnserved)
	}
	report := merge.Info{Own: leash.Own(), RESP3: r.Lane.RESP3}
	if wantsLeash(cmd.Args[1:]) {
		report.Section = section(leash)
	}
	masters, exact := r.Topology().Masters(), onlyKeyspace(cmd.Args[1:])
	usual := slices.Index(masters, r.Keyless())
	var parts []*call.Part
	var to []*links.Node
	for i := range masters { // the usual node first: its text decides the sections
		n := masters[(usual+i)%len(masters)]
		if n.Unresponsive() && !exact && len(masters) > 1 {
			report.Missing++
			continue
		}
		p := call.SparePart(bytes.Clone(cmd.Raw))
		if exact {
			p = call.FixedPart(bytes.Clone(cmd.Raw))
		}
		parts, to = append(parts, p), append(to, n)
	}
	if len(parts) == 0 {
		return r.Fail(merge.NotSent)
	}
	return r.FanOut(parts, to, len(cmd.Raw), report.Merge)
}

// onlyKeyspace reports whether the sections ask only for the number of keys.
func onlyKeyspace(sections [][]byte) bool {
	return len(sections) == 1 && resp.IsWord(sections[0], "KEYSPACE")
}

func wantsLeash(sections [][]byte) bool {
	return len(sections) == 0 || slices.ContainsFunc(sections, func(name []byte) bool {
		return slices.Contains([]string{"leash", "all", "everything", "default"}, strings.ToLower(string(name)))
	})
}

// section returns the section about Leash, in the format of INFO.
func section(leash Leash) []byte {
	b := []byte("# Leash\r\n")
	leash.Fields(func(name string, value any) { b = fmt.Appendf(b, "leash_%s:%v\r\n", name, value) })
	return b
}
