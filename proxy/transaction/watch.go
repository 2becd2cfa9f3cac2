package transaction

import (
	"bytes"
	"time"

	"leash/proxy/call"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/slots"
)

// Watch runs WATCH on a connection that the session has to itself. EXEC, DISCARD, UNWATCH and the
// end of the session give it back. Other commands use the shared links until MULTI. No call is in
// flight. It returns false when the session ends.
func (t *Transaction) Watch(cmd resp.Command) bool {
	if t.Router.Topology().Cluster() {
		slot, one := call.SameSlot(cmd.Args[1:], 1)
		if !one || t.slot != slots.Any && t.slot != slot {
			t.endUnused()
			return t.Router.Fail(msgCrossSlot)
		}
		t.slot = slot
	}
	reply := t.watch(bytes.Clone(cmd.Raw))
	t.endUnused()
	return t.Context.Err() == nil && t.Router.Answer(reply)
}

func (t *Transaction) endUnused() {
	if !t.watched && !t.voided {
		t.end(true)
	}
}

// watch sends WATCH to the slot's owner. If keys are watched already, and the slot has moved or the
// connection is lost, the transaction becomes void.
func (t *Transaction) watch(request []byte) []byte {
	t.retries = backoff{since: time.Now()}
	for {
		moved := resp.AppendError(nil, call.ErrorUnserved)
		before := t.watched || t.voided
		if t.connect() && !t.voided {
			a := t.Router.Gather(t.link, request)[0]
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

// Unwatch runs UNWATCH, which ends the transaction. No call is in flight.
func (t *Transaction) Unwatch(cmd resp.Command) {
	clean := false
	if t.link != nil {
		clean = string(t.Router.Gather(t.link, bytes.Clone(cmd.Raw))[0].Bytes) == resp.OK
	}
	t.end(clean)
}

var _ links.Sink = (*execution)(nil)
