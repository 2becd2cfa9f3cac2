package route

import (
	"slices"

	"leash/proxy/links"
)

type writtenNodes struct {
	nodes     []*links.Node // used by the session's loop only
	elsewhere []*links.Node // nodes that got a write by a redirect; guarded by the session's mutex
}

// Wrote remembers a node that the session writes to.
func (r *Router) Wrote(n *links.Node) {
	if w := &r.written; n != nil && !slices.Contains(w.nodes, n) {
		w.nodes = append(w.nodes, n)
	}
}

// WroteElsewhereLocked remembers a node that got a write by a redirect. The session's mutex is
// held.
func (r *Router) WroteElsewhereLocked(n *links.Node) {
	if w := &r.written; !slices.Contains(w.elsewhere, n) {
		w.elsewhere = append(w.elsewhere, n)
	}
}

// Written returns the masters that may have the session's writes, and forgets the others. left
// reports whether one of them has stopped being a master since the last call. The state of its
// writes is then unknown.
func (r *Router) Written() (nodes []*links.Node, left bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	w, masters := &r.written, r.topology.Masters()
	for _, n := range append(w.nodes, w.elsewhere...) {
		if !slices.Contains(masters, n) {
			left = true
		} else if !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	w.nodes, w.elsewhere = slices.Clone(nodes), nil
	return nodes, left
}
