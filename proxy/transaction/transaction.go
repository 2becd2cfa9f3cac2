package transaction

import (
	"bytes"
	"time"

	"leash/proxy/command"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/slots"
)

// Limits for commands that are sent before their replies are read, and for commands that are kept
// in case their slot moves.
const (
	transactionBatch = 1024     // commands
	transactionBytes = 1 << 20  // of a batch
	maxReplay        = 64 << 20 // bytes of a transaction that are kept
)

// Replies of a transaction that Leash gives itself.
const (
	msgExecAbort    = "EXECABORT Transaction discarded because of previous errors."
	ExecArity       = "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"
	msgNestedMulti  = "ERR MULTI calls can not be nested"
	msgWatchInMulti = "ERR WATCH inside MULTI is not allowed"
	msgLargeOwn     = "ERR the commands of this transaction that Leash executes itself are too large"
	msgCrossSlot    = "CROSSSLOT Keys in request don't hash to the same slot"
)

// Transaction is a session's state from MULTI or WATCH on. It has a connection of its own, so
// QUEUED, EXECABORT and the order of errors are Redis's.
//
// Leash sends the commands in batches. A batch is all that the client sent at once. Leash reads the
// replies before the client gets them. When the slot moves, Leash sends all commands since MULTI to
// the new owner. This is safe, because none has been executed.
//
// Only EXEC executes commands. Leash repeats it only if it certainly did not run. Only the
// session's loop uses a transaction.
type Transaction struct {
	Config
	node    *links.Node
	link    *links.Link // nil while nothing has been sent, or after a loss
	lane    dial.Lane   // the lane that the link's connection is set up for
	slot    slots.Slot  // of the keys; slots.Any before the first
	tracked bool        // the link belongs to client-side caching
	caching []byte      // CLIENT CACHING, sent before MULTI
	altered bool        // the connection is not as it was when new
	watched bool        // keys are watched on the link's connection
	voided  bool        // watched keys may have changed unseen: EXEC answers nil
	aborted bool        // Leash refused a command: EXEC answers EXECABORT

	// Positions in queue, or 0: the first command with a key in another slot, and the first with an
	// error.
	crossedAt, failedAt int

	subscribing bool // a queued command begins subscribe mode
	dropped     bool // the commands have too many bytes to be kept
	// a queued command changes what replicas see: a pause of writes holds EXEC back
	propagates bool

	queue    []queued // the commands from MULTI on; empty before it
	sent     int      // number of commands on the link's connection
	answered int      // number of commands with a reply
	size     int      // bytes of commands without a reply
	kept     int      // bytes of all commands
	own      int      // bytes of commands that Leash runs
	retries  backoff
}

// Len returns the number of commands since MULTI, with MULTI. It is 0 outside a transaction and for
// a nil Transaction.
func (t *Transaction) Len() int64 {
	if t == nil {
		return 0
	}
	return int64(len(t.queue))
}

// Size returns the bytes of the commands that are kept. It is 0 for a nil Transaction.
func (t *Transaction) Size() int64 {
	if t == nil {
		return 0
	}
	return int64(max(t.kept, t.size) + t.own)
}

// queued is a command of a transaction as Redis gets it.
type queued struct {
	request []byte
	command *command.Command // Leash runs it after EXEC; nil: Redis does it all
	cmd     resp.Command
	foreign bool   // its key is in another slot: Redis only checks whether it could be queued
	script  string // the digest of the script that it runs by EVALSHA; empty: none
	scripts bool   // it changes which scripts Redis has
	// amend corrects Redis's element of EXEC's reply; nil: it needs no correction.
	amend func(node *links.Node, element []byte) []byte
}

// Begin runs MULTI. It sends nothing yet, because the first key among the next commands decides the
// node. caching is a CLIENT CACHING to be sent before MULTI, or nil. No call is in flight.
func (t *Transaction) Begin(request, caching []byte) {
	t.caching = caching
	t.add(queued{request: request})
}

// Take runs a command between MULTI and EXEC. c is nil for a command in no table. It returns false
// when the session ends.
func (t *Transaction) Take(c *command.Command, cmd resp.Command) bool {
	name := ""
	if c != nil {
		name = c.Name
	}
	switch alone := len(cmd.Args) == 1; {
	case name == "exec" && alone:
		return t.exec()
	case name == "exec":
		return t.AwaitQueued() && t.Router.Answer(t.discard(resp.AppendError(nil, ExecArity)))
	case name == "discard" && alone:
		return t.AwaitQueued() && t.Router.Answer(t.discard([]byte(resp.OK)))
	case name == "multi" && alone:
		return t.AwaitQueued() && t.Router.Fail(msgNestedMulti)
	case name == "watch" && !alone:
		return t.AwaitQueued() && t.Router.Fail(msgWatchInMulti)
	}
	return t.enqueue(c, cmd)
}

// enqueue queues a command. Redis gets the command itself if it can run it on this connection.
// Otherwise Leash runs the command after EXEC, and Redis gets a PING in its place.
func (t *Transaction) enqueue(c *command.Command, cmd resp.Command) bool {
	switch t.executor(c, cmd) {
	case byRedis:
		t.propagates = t.propagates || c.MayPropagate()
		request, amend := t.Session.Queue(c, cmd)
		t.add(queued{request: request, amend: amend, script: digest(c, cmd), scripts: changesScripts(c)})
	case byLeash:
		if refusal := t.Router.Denial(c, cmd); refusal != "" {
			return t.AwaitQueued() && t.refuse(refusal)
		}
		if t.own += len(cmd.Raw); t.own > maxReplay {
			return t.AwaitQueued() && t.refuse(msgLargeOwn)
		}
		t.subscribing = t.subscribing || c.Class == command.Subscriber
		t.add(queued{request: ping, command: c, cmd: cloneCommand(cmd)})
	case byBoth:
		own := cloneCommand(cmd)
		t.add(queued{request: own.Raw, command: c, cmd: own})
		t.altered = true
	case otherSlot:
		if t.crossedAt == 0 {
			t.crossedAt = len(t.queue)
		}
		t.add(queued{request: bytes.Clone(cmd.Raw), foreign: true})
	case byNobody:
		if !t.AwaitQueued() {
			return false
		}
		t.abort()
		if t.Session.Forbids(c, cmd.Args) {
			return t.Session.Forbid(c, cmd)
		}
		return t.Router.Fail("ERR '" + c.Name +
			"' is not allowed inside MULTI on a cluster: no transaction spans several nodes")
	}
	if len(t.queue)-t.answered >= transactionBatch || t.size >= transactionBytes {
		return t.AwaitQueued()
	}
	return true
}

func (t *Transaction) add(q queued) {
	t.queue = append(t.queue, q)
	t.size += len(q.request)
	t.kept += len(q.request)
}

// refuse answers a queued command with an error. Nothing of the transaction is executed after that.
func (t *Transaction) refuse(message string) bool {
	t.abort()
	return t.Router.Fail(message)
}

// Refuse answers a command that Leash does not permit with an error, after the commands before it.
// A refused EXEC ends the transaction. It returns false when the session ends.
func (t *Transaction) Refuse(exec bool, message string) bool {
	switch {
	case !t.AwaitQueued():
		return false
	case exec:
		return t.Router.Answer(t.discard(resp.AppendError(nil, message)))
	}
	return t.refuse(message)
}

// abort records that Leash answers the next command with an error.
func (t *Transaction) abort() {
	t.aborted = true
	t.failed(len(t.queue))
}

// failed records that the command at a position got an error.
func (t *Transaction) failed(at int) {
	if t.failedAt == 0 {
		t.failedAt = at
	}
}

// crossed reports whether commands of several slots have been queued. A cluster node reports that
// at EXEC. After an earlier error it queues nothing, so it does not report it.
func (t *Transaction) crossed() bool {
	return t.crossedAt > 0 && (t.failedAt == 0 || t.crossedAt < t.failedAt)
}

// AwaitQueued sends the commands that have not been sent and passes their replies on. It returns
// false when the session ends. A nil Transaction has none.
func (t *Transaction) AwaitQueued() bool {
	if t == nil || t.answered == len(t.queue) {
		return true
	}
	t.retries = backoff{since: time.Now()}
	answers, ok := t.transmit(nil)
	return ok && t.pass(answers)
}

// pass gives the client those of answers that it does not have yet, which are the last ones.
func (t *Transaction) pass(answers []*route.Answer) bool {
	for _, a := range t.unanswered(answers) {
		if !t.Router.Answer(a.Bytes) {
			return false
		}
	}
	return true
}

// join returns one piece with the replies that the client does not have yet.
func (t *Transaction) join(answers []*route.Answer) (joined []byte) {
	for _, a := range t.unanswered(answers) {
		joined = append(joined, a.Bytes...)
	}
	return joined
}

// unanswered returns the answers that the client does not have yet, and counts them as given.
func (t *Transaction) unanswered(answers []*route.Answer) []*route.Answer {
	fresh := answers[max(0, len(answers)-(len(t.queue)-t.answered)):]
	for i, a := range fresh {
		if a.IsError() {
			t.failed(len(t.queue) - len(fresh) + i)
		}
	}
	t.answered, t.size = len(t.queue), 0
	if t.kept > maxReplay {
		t.dropped = true
		for i := range t.queue {
			t.queue[i].request = nil
		}
	}
	return fresh
}

// discard ends the transaction without executing it and returns reply.
func (t *Transaction) discard(reply []byte) []byte {
	clean := t.link != nil && t.sent == 0 && !t.watched
	if t.link != nil && !clean {
		a := t.Router.Gather(t.link, resp.AppendCommand(nil, "DISCARD"))[0]
		clean = string(a.Bytes) == resp.OK
	}
	t.end(clean)
	return reply
}

// End ends the transaction without executing it, and closes its connection. A nil Transaction has
// none.
func (t *Transaction) End() {
	if t != nil {
		t.end(false)
	}
}

// end gives the connection back. If clean is set, it can be used again, because Redis has ended
// MULTI and WATCH on it.
func (t *Transaction) end(clean bool) {
	t.unpin(clean)
	t.Done()
	t.Session.Over()
}

// Keep reports whether the transaction has the connection, which belongs to client-side caching. If
// so, the transaction ends the connection itself from now on.
func (t *Transaction) Keep(l *links.Link) bool {
	if t == nil || t.link != l {
		return false
	}
	t.tracked, t.altered = false, true
	return true
}

// Propagates reports whether EXEC changes what replicas see. A nil Transaction has no EXEC.
func (t *Transaction) Propagates() bool { return t != nil && t.propagates }

// nilReply is what EXEC answers when a watched key has changed.
func (t *Transaction) nilReply() []byte {
	if t.Router.Lane.RESP3 {
		return []byte(resp.Null)
	}
	return []byte("*-1\r\n")
}

// cloneCommand copies a command out of the buffer it was read into.
func cloneCommand(cmd resp.Command) resp.Command {
	clone, _ := resp.ParseRequest(bytes.Clone(cmd.Raw))
	return clone
}
