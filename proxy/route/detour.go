package route

import (
	"slices"

	"leash/proxy/links"
)

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
