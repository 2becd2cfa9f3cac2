package proxy

import (
	"bytes"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// wait runs WAIT and WAITAOF (https://redis.io/docs/latest/commands/wait/). Redis answers them for
// the connection's own writes, but the session's writes went out on shared links. So Leash asks
// each node that the session wrote to, on a pinned connection whose offset has been moved past
// those writes (offset.go). The smallest answer holds for all. It also covers other sessions'
// earlier writes. So it may be smaller than on a connection of the client's own, but never larger.
func (s *session) wait(c *command.Command, cmd resp.Command) bool {
	if !s.router.Ready(c, cmd) {
		return true
	}
	if !s.router.AdoptTopology() || !s.router.Barrier() {
		return false
	}
	s.out.Flush()
	nodes, left := s.router.Written()
	if len(nodes) == 0 {
		if s.router.Keyless() == nil {
			return s.fail(call.ErrorUnserved)
		}
		nodes = append(nodes, s.router.Keyless())
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
		b.pins = append(b.pins, s.router.PinTo(o.node, o.lane))
	}
	abort := func() {
		for _, own := range b.pins {
			own.Abort()
		}
	}
	var answers []*route.Answer
	ok := s.whileWatched(b, abort, func() {
		var stuck bool
		answers, stuck = s.waitOn(b.pins, offsets, bytes.Clone(cmd.Raw))
		left = left || stuck
	})
	for _, own := range b.pins {
		own.Release()
	}
	return ok && s.tracking.Load().Await() && s.answer(leastAnswer(answers, left))
}

// waitOn sends request on every connection after it has moved the connection's offset, and waits
// for the replies. stuck reports whether one offset could not be moved. The answer of that node
// then says nothing about the session's writes.
func (s *session) waitOn(pins []*route.Pin, offsets []offset, request []byte) (answers []*route.Answer, stuck bool) {
	for i, own := range pins {
		switch a := s.moveOffset(own, offsets[i]); {
		case a == nil:
		case a.Missing, bytes.HasPrefix(a.Bytes, []byte("-NOPERM ")), bytes.HasPrefix(a.Bytes, []byte("-NOAUTH ")):
			return []*route.Answer{a}, true
		default: // Redis accepts no writes there now
			stuck = true
		}
	}
	var all []*route.Gathering
	for _, own := range pins {
		g, a := s.router.Send(own.Link(), [][]byte{request})
		all, answers = append(all, g), append(answers, a...)
	}
	for i, g := range all {
		g.Await(pins[i].Link())
	}
	return answers, stuck
}

// leastAnswer merges the nodes' replies to WAIT or WAITAOF: an error if there is one, otherwise the
// smallest of each number. All numbers are 0 if a node has left.
func leastAnswer(answers []*route.Answer, left bool) []byte {
	replies := make([]*merge.Reply, len(answers))
	for i, a := range answers {
		switch {
		case a.Missing && !a.Written:
			return resp.AppendError(nil, call.NotSent(a.Cause))
		case a.Missing:
			return resp.AppendError(nil, call.ErrorLost)
		case a.IsError():
			return a.Bytes
		}
		r := merge.Of(a.Bytes)
		replies[i] = &r
	}
	if left {
		none := merge.Of([]byte(":0\r\n"))
		if len(answers[0].Bytes) > 0 && answers[0].Bytes[0] == '*' {
			none = merge.Of([]byte("*2\r\n:0\r\n:0\r\n"))
		}
		replies = append(replies, &none)
	}
	least := merge.Merge(merge.Least, replies)
	return least.Bytes()
}
