package transaction

import (
	"bytes"
	"strings"
	"time"

	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/slots"
)

type executor uint8

const (
	byRedis   executor = iota // Redis, on the transaction's connection
	byLeash                   // Leash, after EXEC
	byBoth                    // both: it changes the connection and the session
	otherSlot                 // neither: its key is in another slot, and EXEC fails
	byNobody                  // neither: the answer is an error
)

// executor chooses what runs a command after MULTI. The first key sets the transaction's slot.
func (t *Transaction) executor(c *command.Command, cmd resp.Command) executor {
	cluster := t.Router.Topology().Cluster()
	switch {
	case t.Session.Forbids(c, cmd.Args):
		return byNobody
	case c.Name == "ping" && t.subscribes():
		// the answer in RESP2 is different, and a HELLO may have been queued
		return byLeash
	case !c.ArityOK(cmd.Args), c.Name == "ping", c.Name == "echo", c.Name == "publish":
		return byRedis
	case c.Name == "client|tracking", c.Name == "info", strings.HasPrefix(c.Name, "pubsub|"):
		return byLeash
	case c.Name == "select", c.Name == "hello", c.Name == "auth":
		return byBoth
	case c.Class == command.Answered, c.Class == command.Subscriber:
		return byLeash
	case c.Class == command.EveryMaster && cluster && c.Data:
		return byNobody
	case c.Class == command.EveryMaster && cluster:
		return byLeash
	}
	i := c.FirstKey(cmd.Args)
	if i == 0 || !cluster {
		return byRedis
	}
	slot := slots.Of(cmd.Args[i])
	if t.slot != slots.Any && t.slot != slot {
		return otherSlot
	}
	t.slot = slot
	return byRedis
}

// subscribes reports whether the client is subscribed, or a queued command will subscribe it.
func (t *Transaction) subscribes() bool {
	return t.subscribing || t.Session.Subscribed()
}

// transmit sends all commands since MULTI that the connection has not got, in order. Then it sends
// e, unless the transaction must not be executed. It returns the replies to the latest commands;
// none is a redirect. It returns false when the session ends.
func (t *Transaction) transmit(e *execution) ([]*route.Answer, bool) {
	for {
		if t.cannotResend() {
			t.drop()
			return t.giveUp(e, nil, resp.AppendError(nil, merge.NotSent)), true
		}
		answers, moved := t.attempt(e)
		switch {
		case t.Context.Err() != nil:
			return nil, false
		case moved == nil:
			return answers, true
		case !t.again(moved):
			return t.giveUp(e, answers, moved), true
		}
	}
}

// attempt sends what the connection has not got. moved is the error because of which everything
// must be sent again, elsewhere or later. A lost connection counts as such an error.
func (t *Transaction) attempt(e *execution) (answers []*route.Answer, moved []byte) {
	if e != nil {
		e.Forget()
	}
	if !t.connect() {
		return nil, resp.AppendError(nil, call.ErrorUnserved)
	}
	unsent := t.queue[t.sent:]
	t.loadScripts(unsent)
	requests := make([][]byte, len(unsent))
	for i, q := range unsent {
		requests[i] = q.request
	}
	g, answers := t.Router.Send(t.link, requests, t.prefix()...)
	if e != nil && !t.aborted && !t.voided && t.crossedAt == 0 {
		e.submit(t.link)
	}
	g.Await(t.link)
	t.sent = len(t.queue)
	for i, a := range answers {
		if a.Missing {
			moved = resp.AppendError(nil, call.NotSent(a.Cause))
			break
		}
		if unsent[i].foreign && t.isRedirect(a.Bytes) {
			a.Bytes = []byte("+QUEUED\r\n")
		}
		if t.isRedirect(a.Bytes) {
			moved = a.Bytes
			break
		}
	}
	if moved != nil && e != nil && e.Sent() {
		e.Await(t.link) // Redis refuses it, or it is lost with the others
		if e.Missing && e.Written && !t.isRedirect(moved) {
			return unknown(answers), nil
		}
		e.Forget()
	}
	return answers, moved
}

// unknown returns the answers for commands that Redis may have executed, because EXEC was written
// after them.
func unknown(answers []*route.Answer) []*route.Answer {
	for _, a := range answers {
		if a.Missing {
			a.Bytes = resp.AppendError(nil, call.ErrorLost)
		}
	}
	return answers
}

// cannotResend reports whether Leash would have to send commands again that it has not kept.
func (t *Transaction) cannotResend() bool {
	return t.dropped && (t.link == nil || t.link.Ended() || t.target() != t.node)
}

// prefix returns CLIENT CACHING, which must come right before MULTI.
func (t *Transaction) prefix() [][]byte {
	if t.sent > 0 || t.caching == nil {
		return nil
	}
	return [][]byte{t.caching}
}

// isRedirect reports whether Redis refused a command because of its slot. Commands are only queued,
// so the text is Redis's own.
func (t *Transaction) isRedirect(reply []byte) bool {
	return t.Router.Topology().Cluster() && slots.IsRefusal(reply)
}

// connect makes sure that there is a link to the right node, set up like the session. It returns
// false when no node serves the slot.
func (t *Transaction) connect() bool {
	if t.link != nil && t.link.Ended() {
		t.drop()
	}
	node := t.target()
	if node == nil {
		return false
	}
	if t.link != nil && t.node != node {
		t.leave()
	}
	if t.link != nil && t.lane != t.Router.Lane && t.sent == 0 {
		t.adapt()
	}
	if t.link == nil {
		t.node, t.lane, t.sent = node, t.Router.Lane, 0
		t.pinTo(node)
	}
	return true
}

func (t *Transaction) target() *links.Node {
	if t.watched {
		return t.node
	}
	if t.slot != slots.Any {
		return t.Up.Topology().Node(t.slot)
	}
	node := t.node
	if node == nil {
		node = t.Router.Keyless()
	}
	if node == nil || !t.Up.Topology().Has(node) { // another server has become the master
		node = t.Up.NodeOf(slots.Any)
	}
	return node
}

// pinTo takes a connection to a node. A session that caches uses its own connection.
func (t *Transaction) pinTo(n *links.Node) {
	if cache := t.Tracking.Cache(); cache != nil {
		t.link, t.tracked = cache.Link(n), true
		t.link.Steady(false)
		return
	}
	t.link, t.tracked = n.Pin(t.Router.Lane, nil), false
}

// unpin gives the connection back. It is clean if it is as it was when new.
func (t *Transaction) unpin(clean bool) {
	switch clean = clean && !t.altered; {
	case t.link == nil:
	case !t.tracked:
		t.link.Unpin(clean)
	case !clean:
		t.link.Break()
	default:
		t.link.Steady(true)
	}
	t.link = nil
}

// adapt sets the connection up like the session. The session may have changed user, database or
// protocol since WATCH.
func (t *Transaction) adapt() {
	t.altered = true
	for _, a := range t.Router.Gather(t.link, t.Up.Dialer.Adapt(t.lane, t.Router.Lane)...) {
		if a.Missing || a.IsError() {
			t.drop()
			return
		}
	}
	t.lane = t.Router.Lane
}

// leave moves the transaction away from a node where it has no key.
func (t *Transaction) leave() {
	clean := t.sent == 0
	if !clean {
		a := t.Router.Gather(t.link, resp.AppendCommand(nil, "DISCARD"))[0]
		clean = string(a.Bytes) == resp.OK
	}
	t.unpin(clean)
	t.sent = 0
}

// drop closes the connection. Keys that were watched on it may then change unseen.
func (t *Transaction) drop() {
	t.unpin(false)
	t.sent = 0
	t.voided = t.voided || t.watched
	t.watched = false
}

// again prepares another attempt, after an error that names the slot's node or after a pause. It
// returns false when the time is over or the commands were not kept.
func (t *Transaction) again(moved []byte) bool {
	t.drop()
	t.followed(moved)
	return t.kept <= maxReplay && t.retries.pause(t, t.isRedirect(moved))
}

// followed records an error by which the node refused a command because of its slot. The text is
// certainly Redis's own.
func (t *Transaction) followed(moved []byte) {
	t.Up.NoteMoving()
	t.Up.Refresh()
	t.Session.Refused(resp.Code(moved))
	if r, ok := slots.ParseRedirect(moved); ok && !r.Ask {
		t.Up.Moved(r.Slot, t.Up.Target(r.Addr, t.node, true))
	}
}

// giveUp answers commands that could not be queued. They will not be executed.
//
// MULTI gets OK, because Leash begins the transaction without Redis. With an error, clients would
// believe that there is no transaction, and the next command would be queued unexpectedly.
func (t *Transaction) giveUp(e *execution, answers []*route.Answer, moved []byte) []*route.Answer {
	t.aborted = t.aborted || e != nil || len(t.queue) > 1
	whole := make([]*route.Answer, len(t.queue))
	for i := range whole {
		whole[i] = &route.Answer{Bytes: clientError(moved)}
		if i == 0 {
			whole[i].Bytes = []byte(resp.OK)
		}
		j := i - (len(t.queue) - len(answers))
		if j >= 0 && !answers[j].Missing && !t.isRedirect(answers[j].Bytes) {
			whole[i].Bytes = answers[j].Bytes
		}
	}
	return whole
}

// clientError returns the error that the client gets for an error that prevented a command.
// Redirects never reach a client.
func clientError(moved []byte) []byte {
	switch {
	case bytes.HasPrefix(moved, []byte("-ASK ")):
		return resp.AppendError(nil, call.TryAgain)
	case bytes.HasPrefix(moved, []byte("-MOVED ")):
		return resp.AppendError(nil, call.ErrorUnserved)
	}
	return moved
}

// backoff paces attempts within the redirect time-out.
type backoff struct {
	since    time.Time // when the first attempt began, or was redirected
	followed bool      // the first redirect, at once
}

// pause waits before the next attempt. It returns false when the time is over or the session ends.
// The time for a link that could not be made counts.
func (b *backoff) pause(t *Transaction, redirect bool) bool {
	now := time.Now()
	if redirect && !b.followed {
		b.since, b.followed = now, true
		return true
	}
	elapsed := now.Sub(b.since)
	if elapsed > t.Up.RedirectTimeout() {
		return false
	}
	links.Pause(t.Context, min(max(elapsed, call.MinRetry), call.MaxRetry))
	return t.Context.Err() == nil
}
