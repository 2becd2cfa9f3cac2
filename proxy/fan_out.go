package proxy

import (
	"leash/proxy/call"
	"leash/proxy/merge"
	"leash/proxy/upstream"
)

// fanOut sends the parts of one call. Part i goes to node to[i]. The call gets its place in the
// order of the session's calls. bytes is the size of the request.
func (s *session) fanOut(parts []*call.Part, to []*upstream.Node, bytes int, m merge.Func) bool {
	links := make([]*upstream.Link, len(to))
	for i, n := range to {
		var ok bool
		if !parts[i].UsesLink() {
			continue
		}
		if links[i], ok = s.takePathTo(n); !ok {
			return false
		}
	}
	shares := call.Shares{Parts: parts, Bytes: bytes, Reads: s.onlyReads(), Merge: m}
	shares.Prefix = s.takeCaching()
	if !s.calls.PushShares(&shares) {
		return false
	}
	for i, p := range parts {
		if to[i] != nil && s.current != nil && s.current.Write {
			s.written.add(to[i])
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
