package proxy

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"leash/internal/guard"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// Errors that Leash itself answers to ordinary commands.
const (
	msgUpstreamLost = "UPSTREAMLOST connection to Redis lost, the command may have been executed"
	msgUpstreamDown = "UPSTREAMDOWN Redis cannot be reached, the command was not executed"
	msgPartlyDown   = "UPSTREAMDOWN part of Redis cannot be reached, the command was executed on the rest only"
	msgSlotUnserved = "CLUSTERDOWN Hash slot not served"
	msgRefused      = "NOAUTH Authentication required."
	msgOddParts     = "ERR the nodes of Redis gave replies that do not fit together"
	msgDropped      = "UPSTREAMLOST session ended before the command was sent"
)

// notSent is the error for a command that was not sent, with the reason.
func notSent(cause error) string {
	if refusal, ok := errors.AsType[*upstream.Refusal](cause); ok {
		return "UPSTREAMDOWN " + refusal.Reason + ", the command was not executed"
	}
	return msgUpstreamDown
}

// maxHops bounds how often one search for a command's node follows the topology.
const maxHops = 16

// Back-off between attempts at a command that no node serves at the moment.
const (
	minRetry = 5 * time.Millisecond
	maxRetry = 100 * time.Millisecond
)

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
	since time.Time // when the first attempt failed

	replica        bool // a read from a replica
	begun          bool // a piece of the reply has been passed on
	scriptReloaded bool // Leash has loaded the script for it

	// The fields below are used in a fan-out.
	reply []byte // the beginning of the reply, or all of it
	rest  chunks // the remainder of the reply
	kept  int    // bytes of both that the session counts
	keys  []int  // indexes of its keys among the call's keys
	spare bool   // its failure does not fail the call
	done  bool
}

var _ upstream.Sink = (*part)(nil)

// send submits the part to a node.
func (p *part) send(n *upstream.Node, asking bool) {
	if p.node != nil && p.node != n {
		p.call.session.noteWriteElsewhere(n)
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

// forgetCaching removes CLIENT CACHING from the command, because Redis accepts either that or
// ASKING with it. Behind the reply, the client is told not to keep it.
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
	p.keep(b)
	c.session.addKept(len(b))
	if done {
		return c.fan.finished(p)
	}
	return nil
}

// replyStart is how much of a part's reply is kept in one piece.
const replyStart = 16 << 10

// keep adds a piece to a part's reply. It does not move the bytes of a large reply.
func (p *part) keep(b []byte) {
	p.kept += len(b)
	n := min(len(b), replyStart-min(len(p.reply), replyStart))
	p.reply = append(p.reply, b[:n]...)
	p.rest.append(b[n:])
}

// whole is the part's reply in one piece.
func (p *part) whole() []byte {
	if p.rest.size > 0 {
		p.reply = slices.Grow(p.reply, p.rest.size)
		p.rest.takeAll(func(b []byte) { p.reply = append(p.reply, b...) })
	}
	return p.reply
}

// Dropped implements upstream.Sink. A session that lost a lock sends nothing more.
func (p *part) Dropped() bool { return p.call.session.killed.Load() }

// Until implements upstream.Sink. After the end of a lock that the session relies on, nothing more
// is sent (rule R27).
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
	// the client has closed its side or has vanished; Redis sends no reply either
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

// fail ends the part with an error that Leash makes.
func (p *part) fail(message string) {
	c := p.call
	if c.fan == nil {
		c.fail(message)
		return
	}
	p.rest.clear()
	p.reply = resp.AppendError(p.reply[:0], message)
	if f := c.fan.finished(p); f != nil {
		f.Flush()
	}
}

// redirected handles an error reply. It reports whether the part was sent again because of it.
func (p *part) redirected(b []byte) bool {
	s := p.call.session
	if p.replica {
		return p.unserved(b)
	}
	if string(b) == noScript || string(b) == noScriptOfValkey {
		return p.reloadScript()
	}
	if !s.server.up.Topology().Cluster() {
		return p.demoted(b)
	}
	if p.slot == anySlot || p.fixed {
		return false
	}
	word, rest, _ := bytes.Cut(b[1:], []byte(" "))
	switch string(word) {
	case "MOVED", "ASK":
		slot, addr, ok := parseRedirect(rest)
		if !ok || slot != p.slot {
			return false
		}
		return p.follow(addr, word[0] == 'A')
	case "TRYAGAIN", "CLUSTERDOWN":
		return p.again(string(bytes.TrimSpace(b[1:])))
	}
	return false
}

// Redis's exact texts for errors that may pass soon. A script that answers TRYAGAIN with another
// text has run, and is not run again.
const (
	tryAgain = "TRYAGAIN Multiple keys request during rehashing of slot"
	// it may continue: " and only accepts read commands"
	clusterDown = "CLUSTERDOWN The cluster is down"
)

// again sends the part once more, later or in pieces, if Redis refused it for the moment.
func (p *part) again(message string) bool {
	s := p.call.session
	switch {
	case message == tryAgain:
		s.server.resharding.mark()
		return p.splitByKey() || p.retryLater()
	case message == msgSlotUnserved, strings.HasPrefix(message, clusterDown):
		s.server.up.Refresh()
		return p.retryLater()
	}
	return false
}

// follow sends the part where a redirect points. A client's script can return such an error itself.
// So an untrusted redirect only counts for nodes that the cluster has named, and for this command.
// A client must not send other clients' commands or a user's password to a server of its choice.
//
// The first redirect is followed at once, since later commands in the session's order follow it
// too. A second redirect means that nodes disagree. Then the order rule decides.
func (p *part) follow(addr string, ask bool) bool {
	up := p.call.session.server.up
	trusted := p.trusted()
	n := up.Target(addr, p.node, trusted)
	up.Refresh()
	if trusted {
		p.call.session.server.resharding.mark()
	}
	p.hops++
	switch {
	case p.hops > maxHops:
		return p.giveUp()
	case n == nil || p.hops > 1 && !ask:
		return p.retryLater() || p.giveUp()
	case !ask && trusted:
		up.Moved(uint16(p.slot), n)
	}
	p.send(n, ask)
	return true
}

// trusted reports whether only Redis can have made the error, and no script. A script can return
// any error.
func (p *part) trusted() bool {
	cmd, ok := resp.ParseRequest(p.Request)
	if !ok {
		return false
	}
	c := p.call.session.server.commands.lookup(cmd.Args)
	return c != nil && c.trusted
}

// giveUp keeps a redirect from reaching the client.
func (p *part) giveUp() bool {
	p.fail(msgSlotUnserved)
	return true
}

// retryLater pauses the session and sends the part again after a back-off. It returns false when
// the time is over. It also returns false when a later command of the session on the same slot is
// in flight, because the part must not fall behind it.
func (p *part) retryLater() bool {
	s := p.call.session
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	elapsed := now.Sub(p.since)
	if elapsed > s.server.up.RedirectTimeout() {
		return false
	}
	s.mu.Lock()
	if s.laterOnSlotLocked(p) {
		s.mu.Unlock()
		return false
	}
	s.held++
	s.mu.Unlock()
	time.AfterFunc(min(max(elapsed, minRetry), maxRetry), func() { s.guard("retry", p.retry) })
	return true
}

func (p *part) retry() {
	s := p.call.session
	t := s.server.up.Topology()
	n := t.Node(uint16(max(p.slot, 0))) // without slots, one node has all
	switch {
	case n != nil:
		p.send(n, false)
	case !p.retryLater():
		p.fail(msgSlotUnserved)
	}
	s.mu.Lock()
	s.held--
	s.wakeLocked()
	s.mu.Unlock()
}

// laterOnSlotLocked reports whether a call behind p's call has a part on p's slot. Without a
// cluster, a command may have keys of any slot.
func (s *session) laterOnSlotLocked(p *part) bool {
	single := !s.server.up.Topology().Cluster()
	return !p.call.laterCallsLocked(func(c *call) bool { return !c.touches(p.slot) && !(single && c.sent()) })
}

// sent reports whether the call goes to Redis.
func (c *call) sent() bool { return c.fan != nil || c.part.call != nil }

// touches reports whether the call has or had a part on slot.
func (c *call) touches(slot int) bool {
	if c.fan == nil {
		return c.part.call != nil && c.part.slot == slot
	}
	for _, p := range c.fan.parts {
		if p.slot == slot {
			return true
		}
	}
	return false
}

// parseRedirect reads "<slot> <host:port>\r\n" of a MOVED or ASK reply.
func parseRedirect(b []byte) (slot int, addr string, ok bool) {
	number, target, ok := bytes.Cut(bytes.TrimSpace(b), []byte(" "))
	if !ok {
		return 0, "", false
	}
	slot, err := strconv.Atoi(string(number))
	if err != nil || slot < 0 || slot >= upstream.SlotCount {
		return 0, "", false
	}
	if i := bytes.IndexByte(target, ' '); i >= 0 { // room for extensions of the protocol
		target = target[:i]
	}
	return slot, string(target), true
}
