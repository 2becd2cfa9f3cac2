package links

import (
	"context"
	"sync"
	"time"
)

const (
	freshAnswer = 100 * time.Millisecond // an answer of this age needs no new PING
	answerWait  = 900 * time.Millisecond // how long a PING may take before its node counts as silent
)

// answers tells those who wait that a node has answered, or that its connection has ended.
type answers struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next answer; nil: nobody waits
}

func (a *answers) wait() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == nil {
		a.next = make(chan struct{})
	}
	return a.next
}

func (a *answers) came() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next != nil {
		close(a.next)
		a.next = nil
	}
}

// Answer reports whether one of the nodes that of returns answers now. If none has answered in the
// last 100 ms, it sends a PING to each and waits for the first answer, 900 ms at most. Concurrent
// calls share the PINGs. While all are known to be silent or away, it returns false at once.
func (ns *Nodes) Answer(ctx context.Context, of func() []*Node) bool {
	since := Now() - freshAnswer
	end := time.NewTimer(answerWait)
	defer end.Stop()
	for {
		changed := ns.answers.wait()
		answered, asked := ping(of(), since)
		if answered || !asked {
			return answered
		}
		select {
		case <-changed:
		case <-end.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// ping reports whether a node has answered since a time of Now. If not, it asks all that may answer
// soon, and reports whether there is one.
func ping(nodes []*Node, since time.Duration) (answered, asked bool) {
	for _, n := range nodes {
		if n.Usable() && n.heard.Load() >= int64(since) {
			return true, true
		}
	}
	for _, n := range nodes {
		if n.Usable() {
			n.askSoon()
			asked = true
		}
	}
	return false, asked
}

// Usable reports whether the node is connected, and no PING has been without an answer for longer
// than answerWait.
func (n *Node) Usable() bool {
	asked := n.asked.Load()
	return n.usable.Load() && (asked == 0 || Now()-time.Duration(asked) < answerWait)
}

// askSoon makes listen send a PING, unless one is on its way.
func (n *Node) askSoon() {
	if n.asked.Load() == 0 {
		select {
		case n.wanted <- struct{}{}:
		default:
		}
	}
}
