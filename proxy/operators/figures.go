package operators

import (
	"leash/proxy/command"
	"leash/proxy/resp"
)

// nodes answers LEASH NODES. A node is usable, busy with a slow script, or down.
func nodes(by Caller, _ *command.Command, _ resp.Command) bool {
	resp3, all := by.Router.Lane.RESP3, by.Server.Nodes()
	b := resp.AppendArray(nil, len(all))
	for _, n := range all {
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
	return by.Router.Answer(b)
}

// stats answers LEASH STATS with the fields of INFO leash, for programs.
func stats(by Caller, _ *command.Command, _ resp.Command) bool {
	var pairs []any
	by.Server.Fields(func(name string, value any) { pairs = append(pairs, name, value) })
	return by.Router.Answer(record(nil, by.Router.Lane.RESP3, pairs...))
}
