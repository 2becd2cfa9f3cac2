package proxy

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// maxHops limits how often one search for a command's node follows the topology.
const maxHops = 16

// Back-off between attempts at a command that no node serves at the moment.
const (
	minRetry = 5 * time.Millisecond
	maxRetry = 100 * time.Millisecond
)

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

// Redis's texts for errors that may end soon. Only these exact texts come from Redis. A script that
// answers TRYAGAIN with another text has run, so Leash does not send it again.
const (
	tryAgain = "TRYAGAIN Multiple keys request during rehashing of slot"
	// may be followed by " and only accepts read commands"
	clusterDown = "CLUSTERDOWN The cluster is down"
)

// again sends the part once more, later or in pieces, if Redis refused it for a reason that may end
// soon.
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

// follow sends the part to the node that a redirect names. A client's script can return such an
// error itself. So an untrusted redirect counts only for nodes that the cluster has named, and only
// for this command. A client must not send other clients' commands or a user's password to a server
// of its choice.
//
// The first redirect is followed at once. Later commands of the session on the slot are redirected
// too, and follow in order. A second redirect means that nodes disagree. Then the part is sent
// again only if the session's order stays the same.
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

// trusted reports whether the error can only come from Redis. A script can return any error.
func (p *part) trusted() bool {
	cmd, ok := resp.ParseRequest(p.Request)
	if !ok {
		return false
	}
	c := p.call.session.server.commands.Lookup(cmd.Args)
	return c != nil && c.Trusted
}

// giveUp answers with an error of Leash, because a redirect must not reach the client.
func (p *part) giveUp() bool {
	p.fail(msgSlotUnserved)
	return true
}

// retryLater holds the session back and sends the part again after a back-off. It returns false
// when the redirect time-out is over. It also returns false when a later command of the session on
// the same slot is in flight, because the part must not be executed after it.
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
	s.calls.held++
	s.mu.Unlock()
	time.AfterFunc(min(max(elapsed, minRetry), maxRetry), func() { s.guard("retry", p.retry) })
	return true
}

func (p *part) retry() {
	s := p.call.session
	t := s.server.up.Topology()
	n := t.Node(uint16(max(p.slot, 0))) // without a cluster, one node has all keys
	switch {
	case n != nil:
		p.send(n, false)
	case !p.retryLater():
		p.fail(msgSlotUnserved)
	}
	s.mu.Lock()
	s.calls.held--
	s.wakeLocked()
	s.mu.Unlock()
}

// laterOnSlotLocked reports whether a call after p's call has a part on p's slot. Without a
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
	if i := bytes.IndexByte(target, ' '); i >= 0 { // later versions may add more words
		target = target[:i]
	}
	return slot, string(target), true
}
