package proxy

import (
	"slices"

	"leash/proxy/upstream"
)

// A script can stall a link, and so can a write that waits for the end of a pause. Then the
// session's later commands take another link of the same lane (upstream.Link.Path). So they do not
// wait, as with one connection for each client.

// takePath sets s.link(owner) to the link that the current command should take. A change of the
// link is a barrier. It returns false when the session ends.
func (s *session) takePath(owner int) bool {
	link := s.link(owner)
	if !link.HasDetour() {
		return true
	}
	return s.changePath(&s.links[owner], s.current == nil || s.current.MayPropagate())
}

// changePath sets *link to the link that the next command should take. This may be the link itself,
// or its detour. write means that the command may write. It returns false when the session ends.
func (s *session) changePath(link **upstream.Link, write bool) bool {
	if (*link).Path(write) == *link {
		return true
	}
	if !s.barrier() {
		return false
	}
	*link = (*link).Path(write)
	return true
}

// takePathTo is takePath for a node. link is nil if the node is not a master of the session's
// topology, or if the session uses client-side caching.
func (s *session) takePathTo(n *upstream.Node) (link *upstream.Link, ok bool) {
	if n == nil || s.topology == nil || s.tracking.Load() != nil {
		return nil, true
	}
	owner := slices.Index(s.topology.Masters(), n)
	if owner < 0 {
		return nil, true
	}
	if !s.takePath(owner) {
		return nil, false
	}
	return s.link(owner), true
}

// onlyReads reports whether the current command only reads and may run twice. A command after
// CLIENT CACHING may not.
func (s *session) onlyReads() bool {
	if t := s.tracking.Load(); t != nil && t.caching != nil {
		return false
	}
	return s.current != nil && s.current.Repeatable
}
