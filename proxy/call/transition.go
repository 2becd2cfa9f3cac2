package call

import (
	"errors"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/slots"
)

// state is how far a part has come. A part begins in the state queued:
//
//	queued ──▶ redirected, postponed ──▶ answered ──▶ done
//
// Only the link knows whether Redis may have a queued part: it says so when it loses the part
// (Lost).
type state uint8

const (
	queued     state = iota // on a link or about to be
	redirected              // on a link again
	postponed               // waits to be sent again; the session sends nothing before it
	answered                // a piece of the reply has been passed on, so it cannot be sent again
	done                    // nothing more comes
)

// incident is what keeps a part from its reply.
type incident uint8

const (
	noIncident   incident = iota // the reply is for the client, also if it is an error
	noReader                     // the replica does not serve the read
	noScriptYet                  // the node does not have the script
	demotion                     // the only master has become a replica
	redirection                  // another node serves the slot
	disagreement                 // the nodes do not agree on who serves the slot
	endless                      // too many redirects
	partlyMoved                  // the slot moves, and only some of the keys have moved
	slotDown                     // no node serves the slot at the moment
	nodeless                     // Leash knows no node for the slot
	keyless                      // Leash knows no node at all
	lostUnsent                   // the connection is lost, and Redis has not got the part
	refusal                      // the part was not sent, and cannot be
	lostWritten                  // the connection is lost, and Redis may have executed the part
	unwanted                     // the connection is lost, and the client has gone
	incidents                    // their number
)

// action is what is done about an incident.
type action uint8

const (
	pass      action = iota // the client gets the error
	follow                  // send it to the node that a redirect names
	toMaster                // send a read to the master
	elsewhere               // send it to the node that the newest topology names
	reload                  // send the script first, and then the part once more
	split                   // send a part for each key
	postpone                // send it again later
	fail                    // the client gets an error of Leash
	drop                    // the client gets nothing
)

// plans says what to do about an incident. An action may be impossible at the time, because the
// order of the session's commands would change or time is over. Then the next one is tried. The
// last one is always possible.
var plans = [incidents][]action{
	noIncident:   {pass},
	noReader:     {toMaster, postpone, fail},
	noScriptYet:  {reload, pass},
	demotion:     {postpone, pass},
	redirection:  {follow},
	disagreement: {postpone, fail},
	endless:      {fail},
	partlyMoved:  {split, postpone, pass},
	slotDown:     {postpone, pass},
	nodeless:     {postpone, fail},
	keyless:      {fail},
	lostUnsent:   {elsewhere, fail},
	refusal:      {fail},
	lostWritten:  {fail},
	unwanted:     {drop},
}

type trouble struct {
	incident incident
	message  string      // for fail
	node     *links.Node // for follow
	asking   bool        // for follow: the redirect was ASK
	cause    error       // for elsewhere
}

// resolve does what the plan for an incident says. It returns false if the client gets the error
// reply.
func (p *Part) resolve(t trouble) bool {
	for _, a := range plans[t.incident] {
		if a == pass {
			return false
		}
		if p.try(a, t) {
			return true
		}
	}
	panic("call: a plan has no last action")
}

// try performs an action. It returns false if that is impossible. After any action but postpone,
// the part may be on a link, so its fields are set before.
func (p *Part) try(a action, t trouble) bool {
	switch a {
	case follow:
		p.state = redirected
		p.send(t.node, t.asking)
	case toMaster:
		p.replica, p.node = false, nil
		n := p.owner()
		if n == nil {
			return false
		}
		p.state = redirected
		p.send(n, false)
	case elsewhere:
		n := p.otherNode(t.cause)
		if n == nil {
			return false
		}
		p.state = redirected
		p.send(n, false)
	case reload:
		return p.reloadScript()
	case split:
		return p.splitByKey()
	case postpone:
		return p.postpone()
	case fail:
		p.state = done
		p.fail(t.message)
	case drop:
		p.state = done
		p.call.drop()
	}
	return true
}

// Reply implements links.Sink.
func (p *Part) Reply(b []byte, end bool) links.Flusher {
	c := p.call
	if p.state != answered && end && b[0] == '-' {
		if p.resolve(p.incidentOf(b)) {
			return nil
		}
		if c.fan == nil { // the errors of a fan-out count once they are merged
			c.queue.session.Failed(c.class)
		}
	}
	p.state = answered
	c.queue.session.Replied(p.node, c)
	if end {
		p.state = done
		if began := c.began; began > 0 && c.queue.server.Slow.IsSlow(p.Answered-began) {
			c.queue.session.Slow(p.Command, p.node, p.Written-began, p.Answered-p.Written)
		}
	}
	return p.pass(b, end)
}

// Blocks says that the part blocks in Redis, before it is sent. The slow log is not about that. If
// closes is set, the client gets no error when the connection is lost, because it is closed.
func (p *Part) Blocks(closes bool) { p.call.began, p.closes = 0, closes }

// Lost implements links.Sink.
func (p *Part) Lost(written bool, cause error) {
	q := p.call.queue
	written = written || p.state == answered
	panicked, _ := errors.AsType[*guard.Panic](cause)
	switch {
	case panicked != nil: // in a sink's Reply
		q.session.Fail()
		return
	case p.replica && p.state != answered && !errors.Is(cause, links.ErrDropped):
		p.node.Unfit()
		p.resolve(trouble{incident: noReader, message: ErrorUnserved})
		return
	case written:
		q.Lost(time.Now())
	}
	p.resolve(lossOf(written, p.abandoned() || written && p.closes, cause))
}

// lossOf returns what the loss of a part means. gone means that the client needs no reply.
func lossOf(written, gone bool, cause error) trouble {
	noDatabase, _ := errors.AsType[*dial.NoDatabase](cause)
	switch {
	case gone:
		return trouble{incident: unwanted}
	case written:
		return trouble{incident: lostWritten, message: ErrorLost}
	case errors.Is(cause, links.ErrDropped):
		return trouble{incident: refusal, message: errorDropped}
	case errors.Is(cause, dial.ErrRefused):
		return trouble{incident: refusal, message: ErrorRefused}
	case noDatabase != nil:
		return trouble{incident: refusal, message: noDatabase.Reply}
	}
	return trouble{incident: lostUnsent, message: NotSent(cause), cause: cause}
}

// Unserved handles a new part for which the session knows no node.
func (p *Part) Unserved() {
	t := trouble{incident: nodeless, message: ErrorUnserved}
	if p.fixed || p.slot == slots.Any {
		t.incident = keyless
	}
	p.resolve(t)
}

// Back-off between attempts at a command that no node serves at the moment.
const (
	MinRetry = 5 * time.Millisecond
	MaxRetry = 100 * time.Millisecond
)

// postpone suspends the session and sends the part again after a back-off. Leash looks for the new
// topology in the background, because nodes that do not serve the part may be the wrong ones.
// postpone returns false when the redirect time-out is over. It also returns false when a later
// command of the session on the same slot is in flight, because the part must not be executed after
// it.
func (p *Part) postpone() bool {
	q := p.call.queue
	q.server.Nodes.Refresh()
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	elapsed := now.Sub(p.since)
	if elapsed > q.server.Nodes.RedirectTimeout() || !q.suspendUnless(p.laterOnSlotLocked) {
		return false
	}
	p.state = postponed
	time.AfterFunc(min(max(elapsed, MinRetry), MaxRetry), p.retry)
	return true
}

// suspendUnless lets no call be pushed until resume. It returns false if the part that is to be
// sent again has been overtaken.
func (q *Queue) suspendUnless(overtaken func() bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if overtaken() {
		return false
	}
	q.suspended++
	return true
}

// resume lets a session continue that was suspended.
func (q *Queue) resume() {
	q.mu.Lock()
	q.suspended--
	q.wakeLocked()
	q.mu.Unlock()
}

// retry sends a postponed part again. It is called by a timer.
func (p *Part) retry() {
	q := p.call.queue
	q.guard("retry", func() {
		if n := p.owner(); n != nil {
			p.state = redirected
			p.send(n, false)
		} else {
			p.resolve(trouble{incident: nodeless, message: ErrorUnserved})
		}
		q.resume()
	})
}

// owner returns the node that has the part's slot now, or nil. Without a cluster, one node has all
// slots.
func (p *Part) owner() *links.Node {
	return p.call.queue.server.Nodes.NodeOf(p.slot)
}

// otherNode returns the node for a part that was never written, or nil if there is no other.
func (p *Part) otherNode(cause error) *links.Node {
	if p.hops++; p.hops > MaxHops || p.fixed {
		return nil
	}
	nodes := p.call.queue.server.Nodes
	n := nodes.OtherNode(p.node)
	if p.slot != slots.Any {
		n = nodes.NodeOf(p.slot)
	}
	if n == p.node && !errors.Is(cause, links.ErrClosed) {
		return nil
	}
	return n
}
