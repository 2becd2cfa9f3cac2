package links

import (
	"context"
	"slices"
	"strconv"
	"time"

	"leash/proxy/dial"
	"leash/proxy/resp"
)

// Limits for idle pinned links, which are kept for the next session: how many per lane of a node,
// and for how long.
const (
	idleLinks = 64
	idleFor   = 30 * time.Second
)

// pinned are a node's pinned links. One session has such a link to itself for a while. Guarded by
// Node.mu.
type pinned struct {
	all  map[*Link]struct{} // in use or idle
	idle map[dial.Lane][]idleLink
}

// idleLink is a pinned link that no session uses, and the time since when.
type idleLink struct {
	link  *Link
	since time.Time
}

// Pin gives the caller a pinned link to the node, which no other session uses. A broken connection
// is not made again. So the connection keeps the state that a command left on it (MULTI, WATCH)
// until the link ends.
//
// The link's reader passes frames that answer no request to receivePush, and nil when the link has
// ended. receivePush may be nil. A link with receivePush is always new.
//
// The caller gives the link back with Unpin. Pin does not block. At the node's limit
// (Config.MaxPinned), the returned link has ended, and requests on it are lost with a *Refusal.
func (n *Node) Pin(lane dial.Lane, receivePush func(frame []byte)) *Link {
	l, old := n.pin(lane, receivePush)
	if old != nil {
		old.close(ErrClosed)
	}
	return l
}

// pin is Pin. The caller must close old, if it is not nil.
func (n *Node) pin(lane dial.Lane, receivePush func(frame []byte)) (l, old *Link) {
	n.counts.used.Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	for receivePush == nil && len(n.pins.idle[lane]) > 0 {
		last := len(n.pins.idle[lane]) - 1
		l := n.pins.idle[lane][last].link
		n.pins.idle[lane] = n.pins.idle[lane][:last]
		l.Steady(false)
		if l.usable() {
			return l, nil
		}
	}
	l = newLink(n, lane)
	l.pinned, l.receivePush = true, receivePush
	room, old := n.roomLocked()
	if !room {
		l.closing, l.dead = errPinLimit, true
		return l, nil
	}
	if n.pins.all == nil {
		n.pins.all, n.pins.idle = make(map[*Link]struct{}), make(map[dial.Lane][]idleLink)
	}
	n.pins.all[l] = struct{}{}
	if !l.start("pinned link", l.live) {
		delete(n.pins.all, l)
	}
	return l, old
}

// live is the body of a pinned link's goroutine.
func (l *Link) live(ctx context.Context) {
	l.run(ctx)
	l.node.forget(l)
	if l.receivePush != nil {
		l.receivePush(nil)
	}
}

// FirstUse reports whether it is called for the first time with this digest of a script. Redis
// loses its scripts when it restarts, and then the link ends. So a script is loaded once a link.
func (l *Link) FirstUse(digest string) bool {
	if l.loaded[digest] {
		return false
	}
	if l.loaded == nil {
		l.loaded = make(map[string]bool)
	}
	l.loaded[digest] = true
	return true
}

// Unpin takes a pinned link back. With clean, the caller states that every request has been
// answered and that the connection is as when it was new. Then another session may use it.
// Otherwise it is closed, and its requests are lost.
func (l *Link) Unpin(clean bool) {
	n := l.node
	n.counts.used.Add(-1)
	if clean && l.receivePush == nil && n.keep(l) {
		return
	}
	l.close(ErrClosed)
}

// keep adds a link to the idle ones if its lane is in use and there is room. It returns false
// otherwise.
func (n *Node) keep(l *Link) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !l.usable() || len(n.pins.idle[l.lane]) >= idleLinks || n.nodes.unused(l.lane) {
		return false
	}
	l.Steady(true)
	n.pins.idle[l.lane] = append(n.pins.idle[l.lane], idleLink{l, time.Now()})
	return true
}

func (n *Node) forget(l *Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pins.all, l)
	n.pins.idle[l.lane] = slices.DeleteFunc(n.pins.idle[l.lane], func(i idleLink) bool { return i.link == l })
}

// sweepIdle closes pinned links that have been idle for idleFor.
func (n *Node) sweepIdle(now time.Time) {
	var old []*Link
	n.mu.Lock()
	for lane, links := range n.pins.idle {
		n.pins.idle[lane] = slices.DeleteFunc(links, func(i idleLink) bool {
			if now.Sub(i.since) < idleFor {
				return false
			}
			old = append(old, i.link)
			return true
		})
	}
	n.mu.Unlock()
	closeAll(old, ErrClosed)
}

// idleLocked removes and returns the idle pinned links of a lane.
func (n *Node) idleLocked(lane dial.Lane) (links []*Link) {
	for _, i := range n.pins.idle[lane] {
		links = append(links, i.link)
	}
	delete(n.pins.idle, lane)
	return links
}

// usable reports whether a pinned link has no pending request and a connection that is not known to
// be broken or to lead to a replica.
func (l *Link) usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := l.pending.len() == 0 || l.login.InFlight() // an AUTH changes nothing for later requests
	return l.conn != nil && l.broken == nil && l.closing == nil && !l.dead && free && !l.refusesWrites.Load()
}

// Steady says whether Leash may send AUTH on a pinned link when its own user has a new password. It
// may not during a transaction, in which AUTH would be queued, nor while a command blocks. A link
// that was pinned is not steady. If there has been a new password since, Steady(true) sends AUTH at
// once: a link that is often in use may never be steady when Leash looks.
func (l *Link) Steady(steady bool) {
	l.mu.Lock()
	l.steady = steady
	l.mu.Unlock()
	if steady {
		l.loginAgain()
	}
}

// Ended reports whether a pinned link takes no more requests.
func (l *Link) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken != nil || l.closing != nil || l.dead
}

// Break ends the connection of a pinned link or of one of Listen. Its requests are lost.
func (l *Link) Break() { l.close(ErrClosed) }

// HangUp makes Redis end the command that blocks on a pinned link. Replies that Redis has given
// before still come. Then the connection ends, and requests without a reply are lost. A node that
// hangs ends nothing: the requests wait for it until the upstream time-out. Safe for concurrent
// use; does not block.
//
// Redis forgets the reply to a connection whose end it sees at the same moment. So HangUp sends
// CLIENT UNBLOCK first (https://redis.io/docs/latest/commands/client-unblock/).
func (l *Link) HangUp() {
	l.mu.Lock()
	l.hungUp = true
	l.mu.Unlock()
	id := l.ClientID()
	if id == 0 {
		l.endWrites()
		return
	}
	request := resp.AppendCommand(nil, "CLIENT", "UNBLOCK", strconv.FormatInt(id, 10), "ERROR")
	l.node.Link(l.node.nodes.Dialer.ServiceLane()).Submit(&Request{Command: request, Sink: &whole{
		ended: func(reply []byte, _ error) {
			// otherwise the reader sees the error that Redis gives the command
			if string(reply) != ":1\r\n" {
				l.endWrites()
			}
		},
	}})
}

// endWrites tells Redis that nothing follows on the connection of a pinned link. Redis then closes
// it.
func (l *Link) endWrites() {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		l.Break()
		return
	}
	l.node.nodes.Go("end of writes", func(context.Context) { // over TLS, CloseWrite may block for 5 s
		if half.CloseWrite() != nil {
			l.Break()
		}
	})
}

// unblocked reports whether an error is what Redis gives to the command that HangUp has ended.
func (l *Link) unblocked(reply []byte) bool {
	if !l.pinned || !resp.HasCode(reply, "UNBLOCKED") {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hungUp
}

// ClientID returns the ID that Redis gave a pinned link's connection (CLIENT ID), or 0 if it is not
// known. It is set before the first reply.
func (l *Link) ClientID() int64 { return l.clientID.Load() }

// Node returns the node at the other end of the link.
func (l *Link) Node() *Node { return l.node }

// Pinned returns how many pinned links sessions use.
func (ns *Nodes) Pinned() (used int64) {
	for _, n := range ns.All() {
		used += n.counts.used.Load()
	}
	return used
}
