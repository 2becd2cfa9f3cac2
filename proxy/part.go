package proxy

import (
	"errors"
	"time"

	"leash/internal/guard"
	"leash/proxy/merge"
	"leash/proxy/upstream"
)

// Errors that Leash itself answers to ordinary commands.
const (
	msgUpstreamLost = "UPSTREAMLOST connection to Redis lost, the command may have been executed"
	msgUpstreamDown = merge.NotSent
	msgSlotUnserved = "CLUSTERDOWN Hash slot not served"
	msgRefused      = "NOAUTH Authentication required."
	msgOddParts     = merge.Mismatch
	msgDropped      = "UPSTREAMLOST session ended before the command was sent"
)

// notSent is the error for a command that was not sent, with the reason.
func notSent(cause error) string {
	if refusal, ok := errors.AsType[*upstream.Refusal](cause); ok {
		return "UPSTREAMDOWN " + refusal.Reason + ", the command was not executed"
	}
	return msgUpstreamDown
}

// anySlot marks a command that every node can serve.
const anySlot = -1

// part is one command sent to one node: a whole call, or one node's share of a split call. It
// follows redirects and decides what may be sent again. It never changes the order of two commands
// of the session on one slot.
//
// A part is on one link at a time. Until the end of the reply, its fields belong to that link.
type part struct {
	upstream.Call
	call  *call
	slot  int  // or anySlot
	pin   *pin // nil: the part uses the shared links
	fixed bool
	node  *upstream.Node
	hops  int
	since time.Time // when an attempt failed first; zero: none failed

	replica        bool // a read from a replica
	begun          bool // the client has got a piece of the reply
	scriptReloaded bool // Leash has loaded the script for it

	// The fields below are used in a fan-out.
	got  *merge.Reply
	kept int // bytes of got that the session counts
	done bool
}

var _ upstream.Sink = (*part)(nil)

// send submits the part to a node.
func (p *part) send(n *upstream.Node, asking bool) {
	if p.node != nil && p.node != n {
		s := p.call.session
		s.mu.Lock()
		s.written.addElsewhereLocked(n)
		s.mu.Unlock()
	}
	p.node, p.Asking = n, asking
	if asking && p.Prefix != nil {
		p.forgetCaching()
	}
	if p.pin != nil {
		p.pin.submit(n, &p.Call)
		return
	}
	if p.replica {
		p.call.session.replicaLink(n).Submit(&p.Call)
		return
	}
	p.call.session.linkTo(n).Submit(&p.Call)
}

// forgetCaching removes CLIENT CACHING from the command, because Redis accepts either CLIENT
// CACHING or ASKING before a command. After the reply, Leash tells the client not to cache the
// value.
func (p *part) forgetCaching() {
	s := p.call.session
	p.Prefix = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lane.RESP3 {
		p.call.after = append(p.call.after, invalidateAll...)
	}
}

// Reply implements upstream.Sink.
func (p *part) Reply(b []byte, done bool) upstream.Flusher {
	if !p.begun && done && b[0] == '-' && p.redirected(b) {
		return nil
	}
	p.begun = true
	if t := p.call.session.tracking.Load(); t != nil {
		t.replied(p.node, p.call)
	}
	return p.pass(b, done)
}

// pass gives a piece of the reply to the call.
func (p *part) pass(b []byte, done bool) upstream.Flusher {
	c := p.call
	if c.fan == nil {
		return c.reply(b, done)
	}
	p.got.Append(b)
	p.kept += len(b)
	c.session.addKept(len(b))
	if done {
		return c.fan.finished(p)
	}
	return nil
}

// Dropped implements upstream.Sink. After the loss of a lock, the session sends nothing more.
func (p *part) Dropped() bool { return p.call.session.killed.Load() }

// Until implements upstream.Sink. Nothing is sent after the end of a hold that the session relies
// on (rule R27).
func (p *part) Until() *time.Time { return p.call.session.holdsUntil() }

// Overdue implements upstream.Sink.
func (p *part) Overdue() { p.call.session.checkHolds() }

// Lost implements upstream.Sink.
func (p *part) Lost(written bool, cause error) {
	s := p.call.session
	if _, ok := errors.AsType[*guard.Panic](cause); ok {
		s.endFaulty()
		return
	}
	if p.replica && !p.begun && !errors.Is(cause, upstream.ErrDropped) {
		p.node.Unfit()
		p.readFromMaster()
		return
	}
	noDatabase, _ := errors.AsType[*upstream.NoDatabase](cause)
	// the client has closed its side or has vanished, so it needs no reply
	gone := p.pin != nil && p.pin.aborted()
	switch {
	case written:
		s.mu.Lock()
		s.lostAt = time.Now()
		s.mu.Unlock()
		if gone {
			p.call.drop()
			return
		}
		p.fail(msgUpstreamLost)
	case gone:
		p.call.drop()
	case errors.Is(cause, upstream.ErrDropped):
		p.fail(msgDropped)
	case errors.Is(cause, upstream.ErrRefused):
		p.fail(msgRefused)
	case noDatabase != nil:
		p.fail(noDatabase.Reply)
	case !p.reroute(cause):
		p.fail(notSent(cause))
	}
}

// reroute sends a part that was never written to the node that the newest topology names.
func (p *part) reroute(cause error) bool {
	if p.hops++; p.hops > maxHops || p.fixed {
		return false
	}
	up := p.call.session.server.up
	n := up.OtherNode(p.node)
	if p.slot != anySlot {
		n = up.Topology().Node(uint16(p.slot))
	}
	if n == nil || n == p.node && !errors.Is(cause, upstream.ErrClosed) {
		return false
	}
	p.send(n, false)
	return true
}

// fail ends the part with an error from Leash.
func (p *part) fail(message string) {
	c := p.call
	if c.fan == nil {
		c.fail(message)
		return
	}
	p.got.Fail(message)
	if f := c.fan.finished(p); f != nil {
		f.Flush()
	}
}
