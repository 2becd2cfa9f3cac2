package proxy

import (
	"strconv"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/upstream"
)

// scanPass is the purpose of one pass of a scan.
//
// SCAN visits one master after the other. A slot may move from a master that it has not visited to
// one that it has finished. SCAN would then miss the slot's keys. So after the last node, Leash
// asks all nodes whether the slots are where they were and none is migrating. If so, the scan is
// over. It has returned every key that existed all the time, most of them once.
//
// Otherwise Leash scans everything twice more. In these passes, a cursor names the node itself and
// not its slots. Each pass visits every node that exists when the pass begins. A key that one of
// the two passes misses has moved during that pass, so the other pass returns it. Only a key that
// moved more than once can be missed by both. A pass starts again when its node has gone. Only
// endless failovers would keep it from ending.
//
// SCAN cannot know that a node was emptied during the scan. This is the same in Redis.
type scanPass uint8

const (
	scanBetween scanPass = iota // between two passes; local says which
	scanOnce                    // the only pass, unless slots move
	scanFirst                   // the first of two
	scanSecond
)

// Values of local between passes.
const (
	afterOnce  = 1
	afterFirst = 2
)

// scan runs SCAN (https://redis.io/docs/latest/commands/scan/). On a cluster, one call asks one
// node.
func (s *session) scan(c *command.Command, cmd resp.Command) bool {
	if !s.server.up.Topology().Cluster() || !c.ArityOK(cmd.Args) || !s.authenticated() {
		return s.router.RelayAny(cmd)
	}
	cursor, ok := parseScanCursor(cmd.Args[1])
	if !ok {
		return s.router.RelayAny(cmd) // Redis reports what is wrong
	}
	return s.scanFrom(cursor, func(order *scanOrder, stop int, from scanCursor) bool {
		return s.scanNode(cmd, order, stop, from)
	})
}

// visit asks one node for keys, from the node's own cursor on, and answers the client.
type visit func(order *scanOrder, stop int, from scanCursor) bool

// scanFrom continues a scan.
func (s *session) scanFrom(cursor scanCursor, v visit) bool {
	switch {
	case cursor == scanCursor{} && s.server.relaying.Resharding.Is():
		return s.beginPass(v, scanFirst)
	case cursor == scanCursor{}:
		return s.beginPass(v, scanOnce)
	case cursor.pass == scanBetween && cursor.local == afterFirst:
		return s.beginPass(v, scanSecond)
	case cursor.pass == scanBetween:
		return s.confirmScan(v, cursor)
	case !s.router.AdoptTopology():
		return false
	}
	order := s.server.scanOrder(s.router.Topology())
	stop := order.find(cursor)
	switch {
	case stop >= 0:
		return v(order, stop, cursor)
	case cursor.pass == scanOnce: // slots have moved
		return s.beginPass(v, scanFirst)
	}
	return s.beginPass(v, cursor.pass)
}

// beginPass scans the first node of a pass. It makes sure that the topology is recent.
func (s *session) beginPass(v visit, pass scanPass) bool {
	if pass == scanOnce {
		s.server.up.RefreshTopology(s.ctx, route.MaxAge) // the check at the end notices if it failed
	} else if !s.server.up.RefreshTopology(s.ctx, 0) {
		return s.fail(merge.NotSent)
	}
	if !s.router.AdoptTopology() {
		return false
	}
	order := s.server.scanOrder(s.router.Topology())
	stop := order.next(-1, pass)
	if stop < 0 {
		return s.fail(call.ErrorUnserved)
	}
	return v(order, stop, scanCursor{pass: pass})
}

// scanNode is SCAN's visit.
func (s *session) scanNode(cmd resp.Command, order *scanOrder, stop int, from scanCursor) bool {
	node := order.stops[stop].node
	if !s.calls.Admit(len(cmd.Raw)) || !s.router.AwaitRoom(node) {
		return false
	}
	args := append([][]byte(nil), cmd.Args...)
	args[1] = strconv.AppendUint(nil, from.local, 10)
	rename := func(reply []byte) []byte {
		local, keys, ok := parseScanReply(reply)
		if !ok {
			return nil
		}
		next, err := order.cursor(stop, from.pass, local).number()
		if err != nil {
			return resp.AppendError(nil, err.Error())
		}
		return scanReply(next, keys)
	}
	parts, to := []*call.Part{call.FixedPart(resp.AppendCommand(nil, args...))}, []*upstream.Node{node}
	return s.router.FanOut(parts, to, len(cmd.Raw), merge.Rewritten(rename))
}

// confirmScan ends a scan if no slot has moved since it began. It waits for an answer from every
// master.
func (s *session) confirmScan(v visit, c scanCursor) bool {
	if !s.router.AdoptTopology() {
		return false
	}
	settled := c.name == s.server.scanOrder(s.router.Topology()).check
	if settled {
		s.out.Flush()
		var err error
		if settled, err = s.server.up.SlotsStable(s.ctx, s.router.Topology()); err != nil {
			s.server.log.Warn("cannot end a scan", "session", s.id, "err", err)
			return s.fail(merge.NotSent)
		}
	}
	if !settled {
		s.server.relaying.Resharding.Mark()
		return s.beginPass(v, scanFirst)
	}
	return s.answer(scanReply(0, []byte("*0\r\n")))
}
