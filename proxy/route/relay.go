package route

import (
	"bytes"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

// Relay sends a command to the node of its first key.
func (r *Router) Relay(c *command.Command, cmd resp.Command) bool {
	i := c.FirstKey(cmd.Args)
	if i == 0 {
		return r.RelayAny(cmd)
	}
	return r.RelayKeys(cmd, slots.Of(cmd.Args[i]), c.ManyKeys)
}

// RelayAny sends a command that any node can serve. A session uses the same node for all of them
// until the topology changes, so they keep their order.
func (r *Router) RelayAny(cmd resp.Command) bool {
	return r.RelayKeys(cmd, slots.Any, false)
}

// RelayKeys sends one whole command to one node. many means that the command may have several keys
// of the slot.
func (r *Router) RelayKeys(cmd resp.Command, slot slots.Slot, many bool) bool {
	if !r.AdoptTopology() || !r.Calls.Admit(len(cmd.Raw)) {
		return false
	}
	link, ok := r.linkOf(slot)
	if !ok || link != nil && !r.awaitLink(link) {
		return false
	}
	p := r.Push(cmd, slot)
	switch {
	case p == nil:
		return false
	case link != nil:
		if r.Command.Write {
			r.Wrote(link.Node())
		}
		p.SendOn(link)
	default:
		p.Unserved()
	}
	if many && r.topology.Cluster() && r.Up.SlotsMoving() {
		return r.Barrier() // it may have to be split by key
	}
	return true
}

// linkOf returns the link for the current command, or for its part on a slot. It is nil if no node
// serves the slot. ok is false when the session ends.
func (r *Router) linkOf(slot slots.Slot) (link *links.Link, ok bool) {
	owner := r.keyless
	if slot != slots.Any {
		owner = r.topology.Owner(slot)
	}
	switch {
	case owner < 0:
		return nil, true
	case r.reads.wanted && slot != slots.Any:
		return r.readLink(owner)
	case !r.takePath(owner):
		return nil, false
	}
	return r.link(owner), true
}

// RelayPart sends one part to the node of its slot. The request has size bytes. m turns Redis's
// reply into the client's reply.
func (r *Router) RelayPart(p *call.Part, size int, m merge.Func) bool {
	if !r.AdoptTopology() {
		return false
	}
	node := r.Keyless()
	if p.Slot() != slots.Any {
		node = r.topology.Node(p.Slot())
	} else if node == nil {
		return r.Fail(call.ErrorUnserved)
	}
	return r.FanOut([]*call.Part{p}, []*links.Node{node}, size, m)
}

// Push makes a call of cmd and adds it to the session's calls. It returns nil when the session
// ends.
func (r *Router) Push(cmd resp.Command, slot slots.Slot) *call.Part {
	request := call.Whole{
		Bytes: cmd.Raw, Source: r.Session.Source(), Slot: slot,
		Reads: r.onlyReads(), Script: r.Command != nil && r.Command.Script,
	}
	request.Prefix = r.TakePrefix()
	return r.Calls.Push(&request)
}

// RelayRewritten relays a command to the session's usual node. rewrite turns Redis's reply into the
// client's reply.
func (r *Router) RelayRewritten(cmd resp.Command, rewrite func(reply []byte) []byte) bool {
	p := call.NewPart(bytes.Clone(cmd.Raw), slots.Any)
	return r.RelayPart(p, len(cmd.Raw), merge.Rewritten(rewrite))
}
