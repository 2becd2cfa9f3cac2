package route

import (
	"slices"

	"leash/proxy/links"
)

func (r *Router) link(owner int) *links.Link {
	if cache := r.Session.Cache(); cache != nil {
		return cache.Link(r.topology.Masters()[owner])
	}
	if r.links[owner] == nil {
		r.links[owner] = r.topology.Masters()[owner].Link(r.Lane)
	}
	return r.links[owner]
}

// linkTo returns the link to a node that need not be in the session's topology. Safe for concurrent
// use.
func (r *Router) linkTo(n *links.Node) *links.Link {
	if cache := r.Session.Cache(); cache != nil {
		return cache.Link(n)
	}
	return n.Link(r.Lane)
}

// Submit sends a request on the session's link to a node: to a replica or to a master. It does not
// block. Safe for concurrent use while a call is in flight.
func (r *Router) Submit(n *links.Node, replica bool, c *links.Request) {
	if replica {
		r.replicaLink(n).Submit(c)
		return
	}
	r.linkTo(n).Submit(c)
}

// awaitRoom waits while too much is pending on a link to a node. A nil link means linkTo.
func (r *Router) awaitRoom(n *links.Node, l *links.Link) bool {
	if l == nil {
		l = r.linkTo(n)
	}
	return r.awaitLink(l)
}

// awaitLink waits while too much is pending on a link. It returns false when the session ends.
func (r *Router) awaitLink(l *links.Link) bool {
	room := l.Room()
	if room == nil {
		return true
	}
	r.Out.Flush()
	for room != nil {
		select {
		case <-room:
		case <-r.Context.Done():
			return false
		}
		room = l.Room()
	}
	return true
}

// A script can stall a link, and so can a write that waits for the end of a pause. Then the
// session's later commands take another link of the same lane (links.Link.Path). So they do not
// wait, as with one connection for each client.

// takePath sets r.link(owner) to the link that the current command should take. A change of the
// link is a barrier. It returns false when the session ends.
func (r *Router) takePath(owner int) bool {
	link := r.link(owner)
	if !link.HasDetour() {
		return true
	}
	return r.changePath(&r.links[owner], r.Command == nil || r.Command.MayPropagate())
}

// changePath sets *link to the link that the next command should take. This may be the link itself,
// or its detour. write means that the command may write. It returns false when the session ends.
func (r *Router) changePath(link **links.Link, write bool) bool {
	if (*link).Path(write) == *link {
		return true
	}
	if !r.Barrier() {
		return false
	}
	*link = (*link).Path(write)
	return true
}

// takePathTo is takePath for a node. link is nil if the node is not a master of the session's
// topology, or if the session uses client-side caching.
func (r *Router) takePathTo(n *links.Node) (link *links.Link, ok bool) {
	if r.topology == nil || r.Session.Cache() != nil {
		return nil, true
	}
	owner := slices.Index(r.topology.Masters(), n)
	if owner < 0 {
		return nil, true
	}
	if !r.takePath(owner) {
		return nil, false
	}
	return r.link(owner), true
}

// onlyReads reports whether the current command only reads and may run twice. A command after
// CLIENT CACHING may not.
func (r *Router) onlyReads() bool {
	if cache := r.Session.Cache(); cache != nil && cache.HasPrefix() {
		return false
	}
	return r.Command != nil && r.Command.Repeatable
}

// TakePrefix returns the request that is to be sent before the current command, only once. It is
// nil if there is none.
func (r *Router) TakePrefix() []byte {
	if cache := r.Session.Cache(); cache != nil {
		return cache.TakePrefix()
	}
	return nil
}
