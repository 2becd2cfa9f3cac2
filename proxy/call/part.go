package call

import (
	"errors"
	"slices"
	"time"

	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/slots"
)

// Errors that Leash itself answers to ordinary commands.
const (
	ErrorLost     = "UPSTREAMLOST connection to Redis lost, the command may have been executed"
	ErrorUnserved = "CLUSTERDOWN Hash slot not served"
	ErrorRefused  = "NOAUTH Authentication required."
	errorDropped  = "UPSTREAMLOST session ended before the command was sent"
)

// NotSent is the error for a command that was not sent, with the reason.
func NotSent(cause error) string {
	if refusal, ok := errors.AsType[*dial.Refusal](cause); ok {
		return "UPSTREAMDOWN " + refusal.Reason + ", the command was not executed"
	}
	return merge.NotSent
}

// Part is one command sent to one node: a whole call, or one node's share of a split call. It never
// changes the order of two commands of the session on one slot.
//
// A part is on one link at a time. Until the end of the reply, its fields belong to that link.
type Part struct {
	links.Request
	call  *Call
	path  Path // nil: the session's links
	node  *links.Node
	since time.Time // when an attempt failed first; zero: none failed
	slot  slots.Slot
	hops  int
	state state

	fixed          bool // it is about this node and goes to no other
	replica        bool // a read from a replica
	scriptReloaded bool // Leash has loaded the script for it
	closes         bool // see Blocks

	// The fields below are used in a fan-out.
	got  *merge.Reply
	kept int // bytes of got that the session counts
}

var _ links.Sink = (*Part)(nil)

// NewPart makes a part of a fan-out. slot may be slots.Any.
func NewPart(request []byte, slot slots.Slot) *Part {
	p := &Part{slot: slot, got: new(merge.Reply)}
	p.Command = request
	return p
}

// FixedPart makes a part of a fan-out for one certain node. It follows no redirect.
func FixedPart(request []byte) *Part {
	p := NewPart(request, slots.Any)
	p.fixed = true
	return p
}

// SparePart makes a FixedPart whose error does not fail the whole call.
func SparePart(request []byte) *Part {
	p := FixedPart(request)
	p.got.Spare = true
	return p
}

// join makes the part belong to a call. prefix goes before the command, or is nil.
func (p *Part) join(c *Call, prefix []byte) {
	p.call, p.Sink, p.Permit, p.Prefix = c, p, c.queue.session, prefix
}

// Via sets the path of a part that does not use the session's links. It returns the part.
func (p *Part) Via(path Path) *Part {
	p.path = path
	return p
}

// Node returns the node that the part goes to, or nil.
func (p *Part) Node() *links.Node { return p.node }

// SendOn sends the part on a link of the session.
func (p *Part) SendOn(l *links.Link) {
	p.node, p.replica = l.Node(), l.ReadsReplica()
	l.Submit(&p.Request)
}

// Send sends the part to a node.
func (p *Part) Send(n *links.Node) { p.send(n, false) }

// send sends the part to a node, for the first time or once more.
func (p *Part) send(n *links.Node, asking bool) {
	c := p.call
	// Redis accepts either CLIENT CACHING or ASKING before a command
	uncached := asking && p.Prefix != nil
	if uncached {
		p.Prefix = nil
	}
	if uncached || p.node != nil && p.node != n {
		c.queue.session.Redirected(n, c, uncached)
	}
	p.node, p.Asking = n, asking
	if p.path != nil {
		p.path.Submit(n, &p.Request)
		return
	}
	c.queue.session.Submit(n, p.replica, &p.Request)
}

// pass gives a piece of the reply to the call.
func (p *Part) pass(b []byte, done bool) links.Flusher {
	c := p.call
	if c.fan == nil {
		return c.Reply(b, done)
	}
	p.got.Append(b)
	p.kept += len(b)
	c.queue.addKept(len(b))
	if done {
		return c.fan.finished(p)
	}
	return nil
}

// fail ends the part with an error from Leash.
func (p *Part) fail(message string) {
	c := p.call
	if c.fan == nil {
		c.Fail(message)
		return
	}
	p.got.Fail(message)
	links.Flush(c.fan.finished(p))
}

// abandoned reports whether the client has gone and needs no reply.
func (p *Part) abandoned() bool { return p.path != nil && p.path.Abandoned() }

// RunsScript implements links.Mover.
func (p *Part) RunsScript() bool { return p.call.script }

// Move implements links.Mover. A read may be sent again on another link while all calls of the
// session in flight are reads. No later call is sent before these have their replies, because it
// would use the first link.
func (p *Part) Move() bool {
	q := p.call.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for c := q.head; c != nil; c = c.next {
		if !c.done && !c.reads {
			return false
		}
	}
	if !q.moved {
		q.moved = true
		q.suspended++ // until none is in flight, see retireLocked
	}
	return true
}

var _ links.Mover = (*Part)(nil)

// laterOnSlotLocked reports whether a call after p's call has a part on p's slot. Without a
// cluster, a command may have keys of any slot.
func (p *Part) laterOnSlotLocked() bool {
	single := !p.call.queue.server.Nodes.Cluster()
	for c := p.call.next; c != nil; c = c.next {
		if c.touches(p.slot) || single && c.sent() {
			return true
		}
	}
	return false
}

func (c *Call) sent() bool { return c.fan != nil || c.part.call != nil }

// touches reports whether the call has or had a part on slot.
func (c *Call) touches(slot slots.Slot) bool {
	if c.fan == nil {
		return c.part.call != nil && c.part.slot == slot
	}
	return slices.ContainsFunc(c.fan.parts, func(p *Part) bool { return p.slot == slot })
}
