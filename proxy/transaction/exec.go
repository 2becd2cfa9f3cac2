package transaction

import (
	"bytes"
	"slices"
	"time"

	"leash/proxy/call"
	"leash/proxy/links"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
)

// execution is an EXEC in progress. Its reply goes to the client as it arrives. There are two
// exceptions: the session's loop looks at an error first, and Leash makes some elements itself.
type execution struct {
	route.Answer
	of       *Transaction
	call     *call.Call // gets the reply; nil: the reply is kept
	streamed bool
	ran      bool // the reply has an element for each command
	node     *links.Node
}

var (
	execRequest = resp.AppendCommand(nil, "EXEC")
	ping        = resp.AppendCommand(nil, "PING")
)

// Reply implements links.Sink.
func (e *execution) Reply(p []byte, done bool) links.Flusher {
	e.ran = e.ran || !e.streamed && p[0] == '*' && !bytes.HasPrefix(p, []byte("*-"))
	if e.call == nil || !e.streamed && p[0] == '-' {
		return e.Answer.Reply(p, done)
	}
	e.streamed = true
	e.of.Tracking.Replied(e.node, e.call)
	f := e.call.Reply(p, done)
	if done {
		e.Finish()
	}
	return f
}

// Lost implements links.Sink.
func (e *execution) Lost(written bool, cause error) {
	if e.streamed {
		e.call.Fail(call.ErrorLost)
	}
	e.Answer.Lost(written, cause)
}

func (e *execution) submit(l *links.Link) {
	e.node = l.Node()
	e.SendTo(e, e.of.Router, l, execRequest)
}

// end gives the client the reply to EXEC. If the reply was streamed, there is nothing left to do.
func (e *execution) end(reply []byte) bool {
	switch {
	case e.streamed:
		return true
	case e.call != nil:
		e.call.Finish(reply)
		return true
	}
	return e.of.Router.Answer(reply)
}

// exec runs the transaction. Commands that were not sent yet go out together with EXEC.
func (t *Transaction) exec() bool {
	t.retries = backoff{since: time.Now()}
	if t.answered == len(t.queue) && t.cannotExecute() {
		return t.Router.Answer(t.discard(t.unexecuted()))
	}
	e := &execution{of: t}
	var queuedReplies *call.Call
	if !t.hasOwn() {
		if queuedReplies, e.call = t.Calls.Open(), t.Calls.Open(); e.call == nil {
			return false
		}
	}
	for {
		answers, ok := t.transmit(e)
		if queuedReplies != nil {
			queuedReplies.Finish(t.join(answers))
			queuedReplies = nil
		} else {
			ok = ok && t.pass(answers)
		}
		switch {
		case !ok:
			if e.Sent() {
				e.Await(t.link)
			}
			e.end(nil)
			return false
		case !e.Sent():
			return e.end(t.discard(t.unexecuted()))
		}
		e.Await(t.link)
		if moved := t.movedAtExec(e); moved == nil {
			return t.executed(e)
		} else if t.watched || !t.again(moved) {
			return e.end(t.notExecuted(moved))
		}
		e.Forget()
	}
}

// cannotExecute reports whether EXEC certainly executes nothing.
func (t *Transaction) cannotExecute() bool {
	return t.aborted || t.crossedAt > 0 || t.watchEnded()
}

// watchEnded reports whether keys were watched on a connection that has ended. They may have
// changed since.
func (t *Transaction) watchEnded() bool { return t.voided || t.watched && t.link.Ended() }

// unexecuted returns the reply to EXEC when EXEC was not sent.
func (t *Transaction) unexecuted() []byte {
	if t.crossed() {
		return resp.AppendError(nil, msgCrossSlot)
	}
	if t.aborted || t.crossedAt > 0 {
		return resp.AppendError(nil, msgExecAbort)
	}
	return t.nilReply()
}

// movedAtExec returns an error if EXEC certainly executed nothing, and nil otherwise. Either the
// slot has moved since the commands were queued, or EXEC was never written.
func (t *Transaction) movedAtExec(e *execution) []byte {
	switch {
	case e.streamed:
		return nil
	case e.Missing && !e.Written:
		return resp.AppendError(nil, merge.NotSent)
	case t.isRedirect(e.Bytes):
		return e.Bytes
	}
	return nil
}

// notExecuted ends a transaction that was not executed, and returns the reply to EXEC. Its slot
// cannot be reached, or its keys may have changed since WATCH.
func (t *Transaction) notExecuted(moved []byte) []byte {
	watched := t.watched || t.voided
	reply := t.nilReply()
	if !watched {
		reply = clientError(moved)
	}
	t.end(false)
	return reply
}

// executed ends the transaction with EXEC's own reply.
func (t *Transaction) executed(e *execution) bool {
	queue := t.queue
	if e.Missing {
		t.end(false)
		t.Calls.Lost(time.Now())
		return e.end(resp.AppendError(nil, call.ErrorLost))
	}
	t.Router.Wrote(t.node)
	if e.ran {
		t.noteScripts(queue)
	}
	own, untracked := t.hasOwn(), !t.tracked
	t.end(true)
	if own {
		ok := t.runQueued(queue, e.Bytes)
		t.Tracking.ForgetAll() // an invalidation may have come before EXEC was answered
		return ok
	}
	ok := e.end(e.Bytes)
	if untracked {
		t.Tracking.ForgetAll() // Redis does not track what its connection read
	}
	return ok
}

// hasOwn reports whether the transaction has a command that Leash runs, or whose reply Leash
// changes.
func (t *Transaction) hasOwn() bool {
	return slices.ContainsFunc(t.queue, func(q queued) bool { return q.command != nil || q.amend != nil })
}

// runQueued runs Leash's own commands of an executed transaction, and answers EXEC. Redis got a
// PING for each of them. Their replies replace those of the PINGs. Redis may have refused a command
// on its connection, such as SELECT, AUTH or HELLO. Such a command is not run.
func (t *Transaction) runQueued(queue []queued, reply []byte) bool {
	rest, n, ok := resp.CutHeader(reply, "*")
	if !ok || n != len(queue)-1 { // nil, or an error
		return t.Router.Answer(reply)
	}
	t.Calls.DelayPushes() // messages of its subscriptions come after the reply to EXEC
	defer t.Calls.AllowPushes()
	merged := resp.AppendArray(nil, n)
	for _, q := range queue[1:] {
		var element []byte
		if element, rest, ok = resp.Cut(rest); !ok {
			return t.Router.Answer(resp.AppendError(nil, merge.Mismatch))
		}
		if q.amend != nil {
			element = q.amend(t.node, element)
		}
		if q.command != nil && element[0] != '-' {
			element, ok = t.Session.RunOwn(q.command, q.cmd)
			if !ok {
				return false
			}
			element = noLongerAllowed(element)
		}
		merged = append(merged, element...)
	}
	return t.Router.Answer(merged)
}

// noLongerAllowed replaces a NOPERM error by the one that Redis gives in EXEC. The user had the
// right when the command was queued, and has it no longer.
func noLongerAllowed(reply []byte) []byte {
	if !bytes.HasPrefix(reply, []byte("-NOPERM ")) {
		return reply
	}
	reason := "no permission to execute the command or subcommand"
	switch { // Redis 7.0 says "the keys", later versions say "a key"
	case bytes.Contains(reply, []byte(" to run the ")):
	case bytes.Contains(reply, []byte(" the keys ")), bytes.Contains(reply, []byte(" a key\r\n")):
		reason = "no permission to touch the specified keys"
	case bytes.Contains(reply, []byte(" the channels ")), bytes.Contains(reply, []byte(" a channel\r\n")):
		reason = "no permission to access one of the channels used as arguments to the command"
	}
	return resp.AppendError(nil,
		"NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. "+
			"This command is no longer allowed for the following reason: "+reason)
}
