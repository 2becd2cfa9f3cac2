package proxy

import (
	"slices"

	"leash/proxy/upstream"
)

// A link may be stalled by a write that a pause holds back, or by a script. The
// session's later commands then take another link of the same lane
// (upstream.Link.Path), as if each client had a connection of its own.

// takePath makes s.link(owner) the link that the current command should take. A
// change is a barrier; false when the session ends.
func (s *session) takePath(owner int) bool {
	link := s.link(owner)
	if !link.HasDetour() {
		return true
	}
	return s.changePath(&s.links[owner], s.current == nil || s.current.mayPropagate())
}

// changePath brings a link up to date that has, or had, a detour.
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

// takePathTo is takePath for a node; link is nil for one that is no master of
// the topology at hand.
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

var _ upstream.Mover = (*part)(nil)

// Move implements upstream.Mover. A read may be sent again on another link while all calls of the
// session in flight are reads. No later call is sent before they have their replies, because it
// would use the first link.
func (p *part) Move() bool {
	s := p.call.session
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.head; c != nil; c = c.next {
		if !c.done && !c.reads {
			return false
		}
	}
	s.moved = true
	return true
}

// reads reports whether the current command only reads and may run twice.
func (s *session) onlyReads() bool {
	return s.current != nil && s.current.repeatable && s.caching == nil
}
