package proxy

import (
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// relay sends a command to the node of its first key.
func (s *session) relay(c *command.Command, cmd resp.Command) bool {
	i := c.FirstKey(cmd.Args)
	if i == 0 {
		return s.relayAny(c, cmd)
	}
	return s.relayKeys(cmd, int(upstream.Slot(cmd.Args[i])), c.ManyKeys)
}

// relayAny sends a command that any node can serve. A session uses the same node for all of them
// until the topology changes, so they keep their order.
func (s *session) relayAny(_ *command.Command, cmd resp.Command) bool {
	return s.relayKeys(cmd, call.AnySlot, false)
}

// relayKeys sends one whole command to one node. many means that the command may have several keys
// of the slot.
func (s *session) relayKeys(cmd resp.Command, slot int, many bool) bool {
	if !s.adoptTopology() || !s.calls.Admit(len(cmd.Raw)) {
		return false
	}
	owner := s.keyless
	if slot != call.AnySlot {
		owner = s.topology.Owner(uint16(slot))
	}
	var link *upstream.Link
	if owner >= 0 {
		if !s.takePath(owner) {
			return false
		}
		link = s.link(owner)
		if s.reads.wanted && slot != call.AnySlot {
			var ok bool
			if link, ok = s.readLink(owner); !ok {
				return false
			}
		}
		if !s.awaitLink(link) {
			return false
		}
	}
	p := s.push(cmd, slot)
	switch {
	case p == nil:
		return false
	case link != nil:
		if s.current.Write {
			s.written.add(link.Node())
		}
		p.SendOn(link)
	default:
		p.Unserved()
	}
	if many && s.topology.Cluster() && s.server.relaying.Resharding.Is() {
		return s.barrier() // it may have to be split by key
	}
	return true
}

// push makes a call of cmd and adds it to the session's calls. It returns nil when the session
// ends.
func (s *session) push(cmd resp.Command, slot int) *call.Part {
	r := call.Request{
		Bytes: cmd.Raw, Source: s.input.batch, Slot: slot,
		Reads: s.onlyReads(), Script: s.current != nil && s.current.Script,
	}
	r.Prefix = s.takeCaching()
	return s.calls.Push(&r)
}

// barrier waits until every earlier call has its reply, so that the next call may use another
// connection. It returns false when the session ends first.
func (s *session) barrier() bool {
	s.updateDescription()
	return s.calls.Empty()
}

// adoptTopology changes to a new topology, after a barrier. All commands that were sent by the old
// topology have their replies before one is sent by the new topology, so their order is kept.
func (s *session) adoptTopology() bool {
	t := s.server.up.Topology()
	if t == s.topology {
		return true
	}
	if !s.barrier() {
		return false
	}
	s.setTopology(s.server.up.Topology())
	return true
}

// setTopology sets the topology and forgets the links used so far. It may be called only while no
// call is in flight.
func (s *session) setTopology(t *upstream.Topology) {
	s.topology = t
	s.reads.forget()
	s.links = make([]*upstream.Link, len(t.Masters()))
	s.keyless = -1
	if n := len(t.Masters()); n > 0 {
		s.keyless = int(s.id % int64(n))
	}
	if tr := s.tracking.Load(); tr != nil {
		tr.restart()
	}
}

// changeLane changes the session's lane to one that it has joined, and leaves the old lane. It may
// be called only while no call is in flight.
func (s *session) changeLane(lane upstream.Lane) {
	old := s.lane
	s.mu.Lock()
	s.lane = lane
	s.mu.Unlock()
	clear(s.links)
	s.reads.forget()
	s.server.up.Leave(old)
	s.refreshLimits()
	s.enterSubscribed()
	if carrier := s.carrier(); carrier != nil && !lane.RESP3 {
		carrier.StopPushes()
	}
	if t := s.tracking.Load(); t != nil {
		t.restart()
	}
}

func (s *session) link(owner int) *upstream.Link {
	if s.tracking.Load() != nil {
		return s.linkTo(s.topology.Masters()[owner])
	}
	if s.links[owner] == nil {
		s.links[owner] = s.topology.Masters()[owner].Link(s.lane)
	}
	return s.links[owner]
}

// linkTo returns the link to a node that need not be in the session's topology. Safe for concurrent
// use.
func (s *session) linkTo(n *upstream.Node) *upstream.Link {
	if t := s.tracking.Load(); t != nil {
		return t.link(n)
	}
	return n.Link(s.lane)
}

// awaitRoom waits while too much is pending for a node.
func (s *session) awaitRoom(n *upstream.Node) bool {
	return n == nil || s.awaitLink(s.linkTo(n))
}

func (s *session) awaitLink(l *upstream.Link) bool {
	room := l.Room()
	if room == nil {
		return true
	}
	s.out.Flush()
	for room != nil {
		select {
		case <-room:
		case <-s.ctx.Done():
			return false
		}
		room = l.Room()
	}
	return true
}
