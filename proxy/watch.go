package proxy

import (
	"bytes"

	"leash/internal/limits"
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/resp"
	"leash/proxy/upstream"
)

// watch runs WATCH on a connection that the session has to itself. EXEC, DISCARD, UNWATCH and the
// end of the session give it back. Other commands use the shared links until MULTI.
func (s *session) watch(c *command.Command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	if !s.router.AdoptTopology() || !s.router.Barrier() {
		return false
	}
	s.out.Flush()
	slot := call.AnySlot
	if s.router.Topology().Cluster() {
		var one bool
		if slot, one = call.SameSlot(cmd.Args[1:], 1); !one || s.tx != nil && s.tx.slot != slot {
			return s.fail(msgCrossSlot)
		}
	}
	if s.tx == nil && !s.beginTransaction(slot) {
		return s.atLimit(limits.Blocked)
	}
	reply := s.tx.watch(bytes.Clone(cmd.Raw))
	if !s.tx.watched && !s.tx.voided {
		s.tx.end(true)
	}
	return s.ctx.Err() == nil && s.answer(reply)
}

// watch sends WATCH to the slot's owner. If keys are watched already, and the slot has moved or the
// connection is lost, the transaction becomes void.
func (t *transaction) watch(request []byte) []byte {
	t.retries = backoff{}
	for {
		moved := resp.AppendError(nil, call.ErrorUnserved)
		before := t.watched || t.voided
		if t.connect() && !t.voided {
			a := t.session.router.Gather(t.link, request)[0]
			if !a.Missing && !t.isRedirect(a.Bytes) {
				t.watched = t.watched || !a.IsError()
				return a.Bytes
			}
			if moved = a.Bytes; a.Missing {
				moved = resp.AppendError(nil, call.NotSent(a.Cause))
			}
		}
		if t.voided || before {
			t.drop()
			t.voided = true
			return []byte(resp.OK)
		}
		if !t.again(moved) {
			return clientError(moved)
		}
	}
}

// unwatch clears the list of watched keys.
func (s *session) unwatch(c *command.Command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	if s.tx == nil {
		return s.ok()
	}
	if !s.router.Barrier() {
		return false
	}
	clean := false
	if t := s.tx; t.link != nil {
		clean = string(s.router.Gather(t.link, bytes.Clone(cmd.Raw))[0].Bytes) == resp.OK
	}
	s.tx.end(clean)
	return s.ok()
}

var _ upstream.Sink = (*execution)(nil)
