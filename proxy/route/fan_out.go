package route

import (
	"bytes"
	"time"

	"leash/proxy/call"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
)

// FanOut sends the parts of one call. Part i goes to node to[i]. The call gets its place in the
// order of the session's calls. bytes is the size of the request. FanOut waits until there is room
// for it, in the session's window and on the links.
func (r *Router) FanOut(parts []*call.Part, to []*links.Node, bytes int, m merge.Func) bool {
	if !r.Calls.Admit(bytes) {
		return false
	}
	links := make([]*links.Link, len(to))
	for i, n := range to {
		var ok bool
		if n == nil || !parts[i].UsesLink() {
			continue
		}
		if links[i], ok = r.takePathTo(n); !ok || !r.awaitRoom(n, links[i]) {
			return false
		}
	}
	shares := call.Shares{Parts: parts, Bytes: bytes, Reads: r.onlyReads(), Merge: m}
	shares.Prefix = r.TakePrefix()
	if !r.Calls.PushShares(&shares) {
		return false
	}
	for i, p := range parts {
		if to[i] != nil && r.Command != nil && r.Command.Write {
			r.Wrote(to[i])
		}
		switch {
		case to[i] == nil:
			p.Unserved()
		case links[i] != nil:
			p.SendOn(links[i])
		default:
			p.Send(to[i])
		}
	}
	return true
}

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
