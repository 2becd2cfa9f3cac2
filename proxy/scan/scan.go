package scan

import (
	"strconv"
	"sync/atomic"

	"leash/proxy/call"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// pass is the purpose of one pass of a scan.
//
// SCAN visits one master after the other. A slot may move from a master that it has not visited to
// one that it has finished. SCAN would then miss the slot's keys. So after the last node, Leash
// asks all nodes whether the slots are where they were and none is migrating. If so, the scan is
// over. It has returned every key that existed all the time, most of them once.
//
// Otherwise Leash scans everything twice more. In these passes, slots may move. Each pass visits
// every node that exists when the pass begins. A key that one of the two passes misses has moved
// during that pass, so the other pass returns it. Only a key that moved more than once can be
// missed by both. A pass starts again when its node has gone. Only endless failovers would keep it
// from ending.
//
// SCAN cannot know that a node was emptied during the scan. This is the same in Redis.
type pass uint8

const (
	between pass = iota // between two passes; local says which
	once                // the only pass, unless slots move
	first               // the first of two
	second
)

// Values of local between passes.
const (
	afterOnce  = 1
	afterFirst = 2
)

// Scans runs the scans of a server's sessions. The zero value is ready. It is safe for concurrent
// use, and not copied.
type Scans struct {
	latest atomic.Pointer[order] // belongs to the newest topology that was scanned
}

// Scan runs SCAN (https://redis.io/docs/latest/commands/scan/) on a cluster. One call asks one
// node. The number of arguments is right. It returns false when the session ends.
func (s *Scans) Scan(r *route.Router, cmd resp.Command) bool {
	at, ok := parseCursor(cmd.Args[1])
	if !ok {
		return r.RelayAny(cmd) // Redis reports what is wrong
	}
	return s.from(r, at, func(o *order, stop int, from cursor) bool { return s.visit(r, cmd, o, stop, from) },
		end{reply: reply(0, []byte("*0\r\n"))})
}

// visit asks one node for keys, from the node's own cursor on, and answers the client.
type visit func(o *order, stop int, from cursor) bool

// end is how a scan ends.
type end struct {
	reply  []byte // the last one, without keys
	unsure bool   // also if some master does not say whether slots have moved
}

func (s *Scans) from(r *route.Router, at cursor, v visit, e end) bool {
	switch {
	case at == cursor{} && r.Up.SlotsMoving():
		return s.begin(r, v, first)
	case at == cursor{}:
		return s.begin(r, v, once)
	case at.pass == between && at.local == afterFirst:
		return s.begin(r, v, second)
	case at.pass == between:
		return s.confirm(r, v, at, e)
	case !r.AdoptTopology():
		return false
	}
	o := s.order(r.Topology())
	stop := o.find(at)
	switch {
	case stop >= 0:
		return v(o, stop, at)
	case at.pass == once: // slots have moved
		return s.begin(r, v, first)
	}
	return s.begin(r, v, at.pass)
}

// begin scans the first node of a pass. It makes sure that the topology is recent.
func (s *Scans) begin(r *route.Router, v visit, p pass) bool {
	if p == once {
		r.Up.RefreshTopology(r.Context, route.MaxAge) // the check at the end notices if it failed
	} else if !r.Up.RefreshTopology(r.Context, 0) {
		return r.Fail(merge.NotSent)
	}
	if !r.AdoptTopology() {
		return false
	}
	o := s.order(r.Topology())
	if len(o.stops) == 0 {
		return r.Fail(call.ErrorUnserved)
	}
	return v(o, 0, cursor{pass: p})
}

// visit is SCAN's visit.
func (s *Scans) visit(r *route.Router, cmd resp.Command, o *order, stop int, from cursor) bool {
	args := append([][]byte(nil), cmd.Args...)
	args[1] = strconv.AppendUint(nil, from.local, 10)
	rename := func(got []byte) []byte {
		local, keys, ok := ParseReply(got)
		if !ok {
			return nil
		}
		next, err := o.cursor(stop, from.pass, local).number()
		if err != nil {
			return resp.AppendError(nil, err.Error())
		}
		return reply(next, keys)
	}
	parts := []*call.Part{call.FixedPart(resp.AppendCommand(nil, args...))}
	return r.FanOut(parts, []*links.Node{o.stops[stop].node}, len(cmd.Raw), merge.Rewritten(rename))
}

// confirm ends a scan if no slot has moved since it began. It waits for an answer from every
// master.
func (s *Scans) confirm(r *route.Router, v visit, c cursor, e end) bool {
	if !r.AdoptTopology() {
		return false
	}
	settled := c.name == s.order(r.Topology()).check
	if settled {
		r.Out.Flush()
		var err error
		if settled, err = r.Up.SlotsStable(r.Context, r.Topology()); err != nil && !e.unsure {
			r.Log.Warn("cannot end a scan", "session", r.ID, "err", err)
			return r.Fail(merge.NotSent)
		}
	}
	if !settled {
		r.Up.NoteMoving()
		return s.begin(r, v, first)
	}
	return r.Answer(e.reply)
}
