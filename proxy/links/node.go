package links

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"leash/proxy/dial"
)

// Node is one Redis server. A separate connection checks whether it is alive. So a slow command on
// a link does not count as a failure, and no client's link is closed because of another client.
type Node struct {
	Addr string // host:port, as Redis or the user gives it

	nodes        *Nodes
	ctx          context.Context
	cancel       context.CancelCauseFunc
	unresponsive atomic.Bool // silent or unreachable for longer than suspectAfter
	usable       atomic.Bool // its last PING had an answer, on a connection that lives

	// For listen, in nanoseconds of Now: when the oldest PING without an answer was sent, 0 for
	// none, and when the last answer came.
	asked, heard atomic.Int64
	wanted       chan struct{} // size 1: a PING is wanted at once

	busy       atomic.Bool  // the last answer was that it runs a slow script
	unfitUntil atomic.Int64 // Unix nanoseconds; no reads from it before then
	roundTrip  atomic.Int64 // nanoseconds of a PING; 0: unknown
	checksRole atomic.Bool  // see Link.noteError

	counts   pinCounts
	identity identity

	// mu guards the fields below. Never held across I/O.
	mu          sync.Mutex
	links       map[dial.Lane]*Link
	secondLinks map[dial.Lane]*Link // see detour
	pins        pinned
	refusal     string    // why the last connection was refused; empty: it was not
	retired     time.Time // when it left the topology; zero: it is a part of it
}

// Link returns the node's link in a lane, and makes it if there is none. After the node has closed,
// every request on the link is lost at once.
func (n *Node) Link(lane dial.Lane) *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[lane]
	if l == nil {
		l = newLink(n, lane)
		n.links[lane] = l
		l.start("link", l.run)
	}
	return l
}

// start runs f, which is the body of a new link's goroutine. When the nodes have ended, the link is
// dead instead, and start returns false.
func (l *Link) start(what string, f func(ctx context.Context)) bool {
	ok := l.node.nodes.Go(what, func(context.Context) { f(l.node.ctx) })
	if !ok {
		l.closing, l.dead = ErrClosed, true
	}
	return ok
}

// closeAll closes links that are no longer needed.
func closeAll(links []*Link, cause error) {
	for _, l := range links {
		l.close(cause)
	}
}

// Unresponsive reports whether the node has not answered for some seconds. A caller that has
// another choice should not ask it.
func (n *Node) Unresponsive() bool { return n.unresponsive.Load() }

// closeLane closes the link of a lane, unless a session has joined it since.
func (n *Node) closeLane(lane dial.Lane, cause error) {
	n.mu.Lock() // before Nodes.mu: a session that joins later gets a new link
	var links []*Link
	if n.nodes.unused(lane) {
		links = n.idleLocked(lane)
		for _, lane := range [...]dial.Lane{lane, lane.Reading()} {
			for _, of := range [...]map[dial.Lane]*Link{n.links, n.secondLinks} {
				if l := of[lane]; l != nil {
					links = append(links, l)
				}
				delete(of, lane)
			}
		}
	}
	n.mu.Unlock()
	closeAll(links, cause)
}

// dropLinks closes the links of all lanes for which of returns true. The next request gets a new
// link.
func (n *Node) dropLinks(of func(dial.Lane) bool) {
	n.mu.Lock()
	var dropped []*Link
	for _, links := range [...]map[dial.Lane]*Link{n.links, n.secondLinks} {
		for lane, l := range links {
			if of(lane) {
				dropped = append(dropped, l)
				delete(links, lane)
			}
		}
	}
	for l := range n.pins.all {
		if of(l.lane) {
			dropped = append(dropped, l)
		}
	}
	n.mu.Unlock()
	closeAll(dropped, ErrClosed)
}

// eachLink calls f for every link. It does not hold the mutex during the calls.
func (n *Node) eachLink(f func(*Link)) {
	n.mu.Lock()
	links := slices.Collect(maps.Values(n.links))
	links = slices.AppendSeq(links, maps.Values(n.secondLinks))
	links = slices.AppendSeq(links, maps.Keys(n.pins.all))
	n.mu.Unlock()
	for _, l := range links {
		f(l)
	}
}

// Retire marks the node as gone from the topology, or as part of it again. It reports whether the
// node can be closed: it has been gone for long enough, or it does not answer.
func (n *Node) Retire(left bool) (done bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !left {
		n.retired = time.Time{}
		return false
	}
	if n.retired.IsZero() {
		n.retired = time.Now()
	}
	return n.unresponsive.Load() || time.Since(n.retired) > n.nodes.Dialer.Timeout()
}

// Use keeps a node open that owns no slot but is about to get one.
func (n *Node) Use() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.retired.IsZero() {
		n.retired = time.Now()
	}
}

// Every calls f at an interval until ctx is done.
func Every(ctx context.Context, interval time.Duration, f func(now time.Time)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f(now)
		}
	}
}

// Pause waits for d or until ctx is done.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Signal sends a value to a channel of size 1, unless one waits there.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close ends a node that has left the topology, and all connections to it.
func (n *Node) Close() {
	n.nodes.log.Info("redis node is not used any more", "node", n.Addr)
	n.cancel(ErrClosed)
}
