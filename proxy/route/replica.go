package route

import (
	"slices"
	"time"

	"leash/proxy/links"
)

// reads is the state of a session's reads from replicas (upstream.Config.ReadFrom). It belongs to
// the session's loop.
//
// The commands of one session on one key must keep their order, so the session uses one path at a
// time. Either all calls in flight are reads on their way to replicas, or none is. The session
// changes to the replicas when nothing is in flight. It leaves them after a barrier when another
// command comes.
//
// Reads that arrived together with an earlier write go to the master and see the write, even if the
// write has its reply. Leash promises no more, because replicas lag and a pipeline may arrive in
// pieces.
//
// A session reads from masters while it holds or awaits a lock, watches keys, or caches what it
// reads (CLIENT TRACKING). All sessions do so while slots are known to move. The replica of a
// slot's old master would answer nil for a key that has moved.
type reads struct {
	wanted bool // by the configuration
	// a command that is not a read came earlier in the same pipeline
	wrote    bool
	replicas bool          // the session reads from replicas now
	links    []*links.Link // by index of the master; nil until used
	chosen   time.Time     // when links was made
}

// chooseAfter is how long a session reads from the same replicas while they serve.
const chooseAfter = time.Second

func (r *reads) forget() { r.links, r.replicas = nil, false }

// readLink returns the link for the current command on the slots of a master: a replica's or the
// master's. It returns false when the session ends.
func (r *Router) readLink(owner int) (*links.Link, bool) {
	may := r.mayReadReplicas()
	switch {
	case !may && r.reads.replicas && !r.leaveReplicas():
		return nil, false
	case (!may || !r.reads.replicas) && !r.takePath(owner):
		return nil, false
	case !may, !r.reads.replicas && !r.takeReplicas():
		return r.link(owner), true
	}
	if r.reads.links[owner] == nil {
		n := r.Up.Reader(r.topology, owner, r.ID)
		if n == r.topology.Masters()[owner] {
			r.reads.links[owner] = r.link(owner)
		} else {
			r.reads.links[owner] = r.replicaLink(n)
		}
	}
	if l := r.reads.links[owner]; l.HasDetour() && !r.changePath(&r.reads.links[owner], false) {
		return nil, false
	}
	return r.reads.links[owner], true
}

// replicaLink returns the link for reads from a replica. Safe for concurrent use.
func (r *Router) replicaLink(n *links.Node) *links.Link {
	return n.Link(r.Lane.Reading())
}

// mayReadReplicas reports whether a replica may serve the current command, in the session's present
// state.
func (r *Router) mayReadReplicas() bool {
	return r.Command != nil && r.Command.Readable && r.Session.MayReadReplicas() &&
		!r.Up.SlotsMoving()
}

// takeReplicas changes to the replicas if nothing is in flight.
func (r *Router) takeReplicas() bool {
	r.Mu.Lock()
	busy := r.Calls.LenLocked() > 0
	r.Mu.Unlock()
	if busy || r.reads.wrote {
		return false
	}
	r.reads.replicas = true
	if now := time.Now(); r.reads.links == nil || now.Sub(r.reads.chosen) > chooseAfter || r.reads.unfit() {
		r.reads.links, r.reads.chosen = make([]*links.Link, len(r.topology.Masters())), now
	}
	return true
}

func (r *reads) unfit() bool {
	return slices.ContainsFunc(r.links, func(l *links.Link) bool { return l != nil && !l.Node().Fit() })
}

// leaveReplicas changes to the masters. It returns false when the session ends.
func (r *Router) leaveReplicas() bool {
	if !r.Barrier() {
		return false
	}
	r.reads.replicas = false
	return true
}
