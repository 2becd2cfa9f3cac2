package route

import (
	"leash/proxy/call"
	"leash/proxy/links"
	"leash/proxy/merge"
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
