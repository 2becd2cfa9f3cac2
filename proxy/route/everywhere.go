package route

import (
	"bytes"
	"time"

	"leash/proxy/call"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// Everywhere sends a command to every master and merges the replies. If one master fails, the reply
// is its error.
func (r *Router) Everywhere(cmd resp.Command, m merge.Func) bool {
	return r.ToEvery(cmd, func([]*call.Part) merge.Func { return m })
}

// ToEvery is Everywhere for a merge that uses the parts.
func (r *Router) ToEvery(cmd resp.Command, m func([]*call.Part) merge.Func) bool {
	masters, ok := r.AllMasters()
	if !ok || len(masters) == 0 {
		return ok && r.Fail(call.ErrorUnserved)
	}
	parts := make([]*call.Part, len(masters))
	for i := range masters {
		parts[i] = call.FixedPart(bytes.Clone(cmd.Raw))
	}
	return r.FanOut(parts, masters, len(cmd.Raw), m(parts))
}

// MaxAge is how old the topology may be for a command about all nodes.
const MaxAge = time.Second

// AllMasters returns the masters of a topology that is no older than MaxAge, because a new node may
// have keys too. It returns false when the session ends.
func (r *Router) AllMasters() ([]*links.Node, bool) {
	r.Up.RefreshTopology(r.Context, MaxAge)
	if !r.AdoptTopology() {
		return nil, false
	}
	return r.topology.Holders(), true
}
