package links

import (
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/resp"
)

// silentFor is how long the oldest request on a link may wait before the link counts as stalled.
// The check takes between one and two times as long.
const silentFor = 50 * time.Millisecond

// detour lets the sessions of a lane pass a request that Redis does not answer. Examples are a
// write while writes are paused and a script that does not end. Redis stops only the connection
// that sent it, but many sessions share that link.
//
// When the oldest request has waited for silentFor, the link sends a PING on a second link to the
// node. If the PING is answered first, unsent commands take the second link. There Redis gives its
// own answer (BUSY). Reads that are already written move there too, because they may run
// twice. The first script on the link of a busy node stays, because it may be the one that runs.
// Requests before it move as well: Redis keeps their replies until the script ends. Writes take the
// second link only while the node is busy, because the node then refuses them at once. A paused
// write would stall the second link too.
//
// When the first link is answered again, all requests return to it. The second link is closed after
// idleFor without use.
type detour struct {
	first  *Link                // on a second link: the link that it replaces; nil on all others
	second atomic.Pointer[Link] // the link that requests take now; nil: none
	busy   atomic.Bool          // on a second link: Redis runs a slow script

	heard    atomic.Int64 // see Heard
	answered atomic.Int64 // requests with a whole reply on this connection
	asking   atomic.Bool  // a PING on the second link is in flight

	// Guarded by Link.mu.
	taken  int64       // requests written on this connection
	timer  *time.Timer // nil before the first request
	armed  bool        // the timer is running
	before int64       // value of heard when the timer was set
	needed time.Time   // on a second link: when it was last used
}

// Path is the link for a session's next command, when its earlier commands took l. A change of path
// is a barrier. write means that Redis may hold the command back while writes are paused.
func (l *Link) Path(write bool) *Link {
	first := l
	if l.first != nil {
		first = l.first
	}
	second := first.second.Load()
	if second == nil || write && !second.busy.Load() {
		return first
	}
	return second
}

// HasDetour reports whether Path may return another link.
func (l *Link) HasDetour() bool { return l.first != nil || l.second.Load() != nil }

// watched reports whether the link is checked for stalls.
func (l *Link) watched() bool {
	return !l.pinned && l.receiver == nil && !l.lane.Scripts && l.first == nil
}

// tookLocked counts requests that are written now and starts the check for their replies.
func (l *Link) tookLocked(n int) {
	l.taken += int64(n)
	if l.armed || n == 0 || !l.watched() {
		return
	}
	l.armed, l.before = true, l.heard.Load()
	if l.timer == nil {
		l.timer = time.AfterFunc(silentFor, guard.Func(l.node.nodes.log, "check of a link", l.checkStalled))
		return
	}
	l.timer.Reset(silentFor)
}

// connectedLocked resets the counters for a new connection, or for none.
func (l *Link) connectedLocked() {
	l.heard.Store(int64(Now()))
	l.taken = 0
	l.answered.Store(0)
	l.second.Store(nil)
}

// progress records that something was read from the connection, at a time of Now.
func (l *Link) progress(now time.Duration) {
	l.heard.Store(int64(now))
	if l.second.Load() != nil {
		l.second.Store(nil)
	}
}

// checkStalled is called by the timer while requests wait for their replies.
func (l *Link) checkStalled() {
	l.mu.Lock()
	waiting := l.conn != nil && l.broken == nil && l.closing == nil && l.taken != l.answered.Load()
	heard := l.heard.Load()
	silent := waiting && heard == l.before
	l.before, l.armed = heard, waiting
	if waiting {
		l.timer.Reset(silentFor)
	}
	l.mu.Unlock()
	if !silent {
		l.second.Store(nil)
		return
	}
	if !l.asking.Swap(true) {
		second := l.node.secondLink(l.lane, l)
		second.Submit(&Request{Command: dial.PingRequest, Sink: &whole{ended: func(reply []byte, lost error) {
			l.secondAnswered(second, heard, reply, lost)
		}}})
	}
}

// secondAnswered handles the end of the PING on the second link. heard is that of the first link,
// when the PING was sent.
func (l *Link) secondAnswered(second *Link, heard int64, reply []byte, lost error) {
	defer l.asking.Store(false)
	if lost != nil {
		l.second.Store(nil)
		return
	}
	second.busy.Store(resp.HasCode(reply, "BUSY"))
	second.node.notePing(reply)
	l.second.Store(second)
	if l.heard.Load() == heard {
		l.interruptReader()
	} else {
		l.second.Store(nil)
	}
}

// interruptReader makes the reader look for requests to move.
func (l *Link) interruptReader() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// moveReads sends written requests that may move on the second link. Their replies on this link are
// discarded.
func (r *replyReader) moveReads() {
	second := r.link.second.Load()
	if second == nil {
		return
	}
	l := r.link
	l.mu.Lock()
	for c := l.written.pop(); c != nil; c = l.written.pop() {
		r.requests.push(c)
	}
	l.mu.Unlock()
	waiting := r.requests.list[r.requests.head:]
	scriptRuns := second.busy.Load()
	for i, c := range waiting {
		m, ok := c.Sink.(Mover)
		if ok && scriptRuns && m.RunsScript() {
			scriptRuns = false
			continue
		}
		if !ok || c.Asking || c.Prefix != nil || c.Replies > 1 || len(c.Command) >= referenced || !m.Move() {
			continue
		}
		waiting[i] = &Request{Sink: Discard{}}
		second.Submit(c)
	}
}

// Mover is a Sink whose request may be able to run twice.
type Mover interface {
	// Move is asked before a written request moves to another link. Later requests of its session
	// then wait until it has its reply.
	Move() bool
	// RunsScript reports whether the request runs a script, so that Redis may be busy with it.
	RunsScript() bool
}

// secondLink returns the node's second link in a lane, and makes it if there is none.
func (n *Node) secondLink(lane dial.Lane, first *Link) *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.secondLinks[lane]
	if l == nil {
		l = newLink(n, lane)
		l.first = first
		if n.secondLinks == nil {
			n.secondLinks = make(map[dial.Lane]*Link)
		}
		n.secondLinks[lane] = l
		l.start("second link", l.run)
	}
	l.mu.Lock() // after Node.mu, as everywhere
	l.needed = time.Now()
	l.mu.Unlock()
	return l
}

// sweepSecondLinks closes second links that have not been used for a while.
func (n *Node) sweepSecondLinks(now time.Time) {
	var old []*Link
	n.mu.Lock()
	for lane, l := range n.secondLinks {
		l.mu.Lock()
		if now.Sub(l.needed) >= idleFor && l.pending.len() == 0 && l.taken == l.answered.Load() {
			old = append(old, l)
			delete(n.secondLinks, lane)
		}
		l.mu.Unlock()
	}
	n.mu.Unlock()
	closeAll(old, ErrClosed)
}
