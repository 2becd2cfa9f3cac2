package proxy

import (
	"bytes"
	"slices"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// writtenNodes are the nodes that a session has written to.
type writtenNodes struct {
	nodes     []*upstream.Node // used by the session's loop only
	elsewhere []*upstream.Node // nodes that got a write by a redirect; guarded by session.mu
}

// add remembers a node that the session writes to.
func (w *writtenNodes) add(n *upstream.Node) {
	if n != nil && !slices.Contains(w.nodes, n) {
		w.nodes = append(w.nodes, n)
	}
}

// addElsewhereLocked remembers a node that got a write by a redirect.
func (w *writtenNodes) addElsewhereLocked(n *upstream.Node) {
	if !slices.Contains(w.elsewhere, n) {
		w.elsewhere = append(w.elsewhere, n)
	}
}

// amongLocked returns the masters that may have the session's writes, and forgets the others. left
// reports whether one of them has stopped being a master since the last call. The state of its
// writes is then unknown.
func (w *writtenNodes) amongLocked(masters []*upstream.Node) (nodes []*upstream.Node, left bool) {
	for _, n := range append(w.nodes, w.elsewhere...) {
		if !slices.Contains(masters, n) {
			left = true
		} else if !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	w.nodes, w.elsewhere = slices.Clone(nodes), nil
	return nodes, left
}

// wait runs WAIT and WAITAOF (https://redis.io/docs/latest/commands/wait/). Redis answers them for
// the connection's own writes, but the session's writes went out on shared links. So Leash asks
// each node that the session wrote to, on a pinned connection whose offset has been moved past
// those writes (offset.go). The smallest answer holds for all. It also covers other sessions'
// earlier writes. So it may be smaller than on a connection of the client's own, but never larger.
func (s *session) wait(c *command.Command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	if !s.adoptTopology() || !s.barrier() {
		return false
	}
	s.out.Flush()
	s.mu.Lock()
	nodes, left := s.written.amongLocked(s.topology.Masters())
	s.mu.Unlock()
	if len(nodes) == 0 {
		if s.keyless < 0 {
			return s.fail(call.ErrorUnserved)
		}
		nodes = append(nodes, s.topology.Masters()[s.keyless])
	}
	offsets := make([]offset, len(nodes))
	for i, n := range nodes {
		var ok bool
		if offsets[i], ok = s.offsetOf(n); !ok {
			return s.fail(merge.NotSent)
		}
	}
	b := &blocked{}
	for _, o := range offsets {
		b.pins = append(b.pins, &pin{session: s, link: o.node.Pin(o.lane, nil)})
	}
	abort := func() {
		for _, own := range b.pins {
			own.abort()
		}
	}
	var answers []*answer
	ok := s.whileWatched(b, abort, func() {
		var stuck bool
		answers, stuck = s.waitOn(b.pins, offsets, bytes.Clone(cmd.Raw))
		left = left || stuck
	})
	for _, own := range b.pins {
		own.release()
	}
	return ok && s.awaitInvalidations() && s.answer(leastAnswer(answers, left))
}

// waitOn sends request on every connection after it has moved the connection's offset, and waits
// for the replies. stuck reports whether one offset could not be moved. The answer of that node
// then says nothing about the session's writes.
func (s *session) waitOn(pins []*pin, offsets []offset, request []byte) (answers []*answer, stuck bool) {
	for i, own := range pins {
		switch a := s.moveOffset(own, offsets[i]); {
		case a == nil:
		case a.lost, bytes.HasPrefix(a.reply, []byte("-NOPERM ")), bytes.HasPrefix(a.reply, []byte("-NOAUTH ")):
			return []*answer{a}, true
		default: // Redis accepts no writes there now
			stuck = true
		}
	}
	var all []*gathering
	for _, own := range pins {
		g, a := s.submit(own.link, [][]byte{request})
		all, answers = append(all, g), append(answers, a...)
	}
	for i, g := range all {
		g.await(pins[i].link)
	}
	return answers, stuck
}

// leastAnswer merges the nodes' replies to WAIT or WAITAOF: an error if there is one, otherwise the
// smallest of each number. All numbers are 0 if a node has left.
func leastAnswer(answers []*answer, left bool) []byte {
	replies := make([]*merge.Reply, len(answers))
	for i, a := range answers {
		switch {
		case a.lost && !a.written:
			return resp.AppendError(nil, call.NotSent(a.cause))
		case a.lost:
			return resp.AppendError(nil, call.ErrorLost)
		case a.isError():
			return a.reply
		}
		r := merge.Of(a.reply)
		replies[i] = &r
	}
	if left {
		none := merge.Of([]byte(":0\r\n"))
		if len(answers[0].reply) > 0 && answers[0].reply[0] == '*' {
			none = merge.Of([]byte("*2\r\n:0\r\n:0\r\n"))
		}
		replies = append(replies, &none)
	}
	least := merge.Merge(merge.Least, replies)
	return least.Bytes()
}
