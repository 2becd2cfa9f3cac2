package route

import (
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
