package masters

import (
	"bytes"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// keys runs KEYS (https://redis.io/docs/latest/commands/keys/) on every master. It uses pinned
// connections, because a reply as large as the database would delay all users of a shared link. It
// is a barrier in both directions. The bytes of the replies count as the session's output until
// they are sent.
func keys(r *route.Router, _ *command.Command, cmd resp.Command) bool {
	masters, ok := r.AllMasters()
	if !ok || len(masters) == 0 {
		return ok && r.Fail(call.ErrorUnserved)
	}
	if !r.Barrier() {
		return false
	}
	r.Out.Flush()
	parts, pins := make([]*call.Part, len(masters)), make([]*route.Pin, len(masters))
	for i := range masters {
		pins[i] = r.Pin()
		parts[i] = call.FixedPart(bytes.Clone(cmd.Raw)).Via(pins[i])
	}
	ok = r.FanOut(parts, masters, len(cmd.Raw), merge.Lists) && r.Barrier()
	for _, p := range pins {
		if !ok {
			p.Abort() // its reply is not needed
		}
		p.Release()
	}
	return ok
}
