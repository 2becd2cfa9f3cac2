package proxy

import (
	"time"

	"leash/proxy/upstream"
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
	replicas bool             // the session reads from replicas now
	links    []*upstream.Link // by index of the master; nil until used
	chosen   time.Time        // when links was made
}

// chooseAfter is how long a session reads from the same replicas while they serve.
const chooseAfter = time.Second

func (r *reads) forget() { r.links, r.replicas = nil, false }

// readLink returns the link for the current command on the slots of a master: a replica's or the
// master's. It returns false when the session ends.
func (s *session) readLink(owner int) (*upstream.Link, bool) {
	may := s.mayReadReplicas()
	switch {
	case !may && s.reads.replicas && !s.leaveReplicas():
		return nil, false
	case (!may || !s.reads.replicas) && !s.takePath(owner):
		return nil, false
	case !may, !s.reads.replicas && !s.takeReplicas():
		return s.link(owner), true
	}
	if s.reads.links[owner] == nil {
		n := s.server.up.Reader(s.topology, owner, s.id)
		if n == s.topology.Masters()[owner] {
			s.reads.links[owner] = s.link(owner)
		} else {
			s.reads.links[owner] = s.replicaLink(n)
		}
	}
	if l := s.reads.links[owner]; l.HasDetour() && !s.changePath(&s.reads.links[owner], false) {
		return nil, false
	}
	return s.reads.links[owner], true
}

// replicaLink returns the link for reads from a replica. Safe for concurrent use.
func (s *session) replicaLink(n *upstream.Node) *upstream.Link {
	lane := s.lane
	lane.Replica = true
	return n.Link(lane)
}

// mayReadReplicas reports whether a replica may serve the current command, in the session's present
// state.
func (s *session) mayReadReplicas() bool {
	return s.current != nil && s.current.Readable && s.modes == 0 && s.tx == nil &&
		s.tracking.Load() == nil && !s.conn.Guarded() &&
		!s.server.relaying.Resharding.Is() && !s.server.up.SlotsMoving()
}

// linkOf returns the link for a part on a slot. It is nil if no node serves the slot. ok is false
// when the session ends.
func (s *session) linkOf(slot int) (*upstream.Link, bool) {
	owner := s.topology.Owner(uint16(slot))
	switch {
	case owner < 0:
		return nil, true
	case s.reads.wanted:
		return s.readLink(owner)
	}
	if !s.takePath(owner) {
		return nil, false
	}
	return s.link(owner), true
}

// takeReplicas changes to the replicas if nothing is in flight.
func (s *session) takeReplicas() bool {
	s.mu.Lock()
	busy := s.calls.LenLocked() > 0
	s.mu.Unlock()
	if busy || s.reads.wrote {
		return false
	}
	s.reads.replicas = true
	if now := time.Now(); s.reads.links == nil || now.Sub(s.reads.chosen) > chooseAfter || s.reads.unfit() {
		s.reads.links, s.reads.chosen = make([]*upstream.Link, len(s.topology.Masters())), now
	}
	return true
}

// unfit reports whether a replica in use no longer serves.
func (r *reads) unfit() bool {
	for _, l := range r.links {
		if l != nil && !l.Node().Fit() {
			return true
		}
	}
	return false
}

// leaveReplicas changes to the masters. It returns false when the session ends.
func (s *session) leaveReplicas() bool {
	if !s.barrier() {
		return false
	}
	s.reads.replicas = false
	return true
}
