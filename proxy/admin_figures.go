package proxy

import (
	"leash/proxy/command"
	"leash/proxy/resp"
)

// adminNodes answers LEASH NODES. A node is usable, busy with a slow script, or down.
func (s *session) adminNodes(*command.Command, resp.Command) bool {
	resp3, nodes := s.router.Lane.RESP3, s.server.Nodes()
	b := resp.AppendArray(nil, len(nodes))
	for _, n := range nodes {
		state := "usable"
		switch {
		case !n.Usable:
			state = "down"
		case n.Busy:
			state = "busy"
		}
		b = record(b, resp3, "addr", n.Addr, "role", n.Role, "state", state,
			"round-trip-us", n.RoundTrip.Microseconds(),
			"shared-links", n.SharedLinks, "detour-links", n.DetourLinks, "pinned-links", n.PinnedLinks)
	}
	return s.answer(b)
}

// adminStats answers LEASH STATS with the fields of INFO leash, for programs.
func (s *session) adminStats(*command.Command, resp.Command) bool {
	var pairs []any
	s.server.infoFields(func(name string, value any) { pairs = append(pairs, name, value) })
	return s.answer(record(nil, s.router.Lane.RESP3, pairs...))
}
