// Package replication is WAIT and WAITAOF: how many replicas have a session's writes.
package replication

import (
	"bytes"

	"leash/proxy/call"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// Wait runs WAIT and WAITAOF (https://redis.io/docs/latest/commands/wait/). Redis answers them for
// the connection's own writes, but the session's writes went out on shared links. So Leash asks
// each node that the session wrote to, on a pinned connection whose offset has been moved past
// those writes (offset.go). The smallest answer holds for all. It also covers other sessions'
// earlier writes. So it may be smaller than on a connection of the client's own, but never larger.
//
// The user may run the command. Wait returns the reply; ok is false when the session ends. block
// runs f while the client is watched, and calls abort when the client leaves, which makes f return.
// The pins are those on which f waits. block returns false when the session ends.
func Wait(r *route.Router, cmd resp.Command, block func(pins []*route.Pin, abort, f func()) bool) (reply []byte,
	ok bool) {
	if !r.AdoptTopology() || !r.Barrier() {
		return nil, false
	}
	r.Out.Flush()
	nodes, left := r.Written()
	if len(nodes) == 0 {
		if r.Keyless() == nil {
			return resp.AppendError(nil, call.ErrorUnserved), true
		}
		nodes = append(nodes, r.Keyless())
	}
	var pins []*route.Pin
	for _, n := range nodes {
		pins = append(pins, r.OwnPin(n))
	}
	abort := func() {
		for _, own := range pins {
			own.Abort()
		}
	}
	var answers []*route.Answer
	ok = block(pins, abort, func() {
		var stuck bool
		answers, stuck = waitOn(r, pins, nodes, bytes.Clone(cmd.Raw))
		left = left || stuck
	})
	for _, own := range pins {
		own.Release()
	}
	if !ok {
		return nil, false
	}
	return leastAnswer(answers, left), true
}

// waitOn sends request on every connection after it has moved the connection's offset, and waits
// for the replies. stuck reports whether one offset could not be moved. The answer of that node
// then says nothing about the session's writes.
func waitOn(r *route.Router, pins []*route.Pin, nodes []*links.Node, request []byte) (answers []*route.Answer,
	stuck bool) {
	for i, own := range pins {
		switch a := moveOffset(r, own, nodes[i]); {
		case a == nil:
		case a.Missing, bytes.HasPrefix(a.Bytes, []byte("-NOPERM ")), bytes.HasPrefix(a.Bytes, []byte("-NOAUTH ")):
			return []*route.Answer{a}, true
		default: // Redis accepts no writes there now
			stuck = true
		}
	}
	var all []*links.Link
	for _, own := range pins {
		all = append(all, own.Link())
	}
	return r.GatherAll(all, request), stuck
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
