package links

import (
	"context"
	"time"
)

const (
	freshAnswer = 100 * time.Millisecond // an answer of this age needs no new PING
	answerWait  = 900 * time.Millisecond // how long a PING may take before its node counts as silent
	answerPoll  = 5 * time.Millisecond   // between two looks for an answer
)

// Answer reports whether one of the nodes that of returns answers now. If none has answered in the
// last 100 ms, it sends a PING to each and waits for the first answer, 900 ms at most. Concurrent
// calls share the PINGs. While all are known to be silent or away, it returns false at once.
func Answer(ctx context.Context, of func() []*Node) bool {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	since := Now() - freshAnswer
	for {
		answered, asked := ping(of(), since)
		if answered || !asked {
			return answered
		}
		if Pause(ctx, answerPoll); ctx.Err() != nil {
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
		Signal(n.wanted)
	}
}
