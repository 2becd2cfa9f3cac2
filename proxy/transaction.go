package proxy

import (
	"bytes"

	"leash/internal/limits"
	"leash/proxy/call"
	"leash/proxy/command"
	"leash/proxy/merge"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/upstream"
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
	msgExecArity    = "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"
	msgExecAlone    = "ERR EXEC without MULTI"
	msgDiscardAlone = "ERR DISCARD without MULTI"
	msgNestedMulti  = "ERR MULTI calls can not be nested"
	msgWatchInMulti = "ERR WATCH inside MULTI is not allowed"
	msgLargeOwn     = "ERR the commands of this transaction that Leash executes itself are too large"
	msgCrossSlot    = "CROSSSLOT Keys in request don't hash to the same slot"
)

// transactionHandlers are MULTI and the commands that belong to it.
func transactionHandlers() handlers {
	return handlers{
		"MULTI": (*session).multi,
		"EXEC": func(s *session, c *command.Command, cmd resp.Command) bool {
			if len(cmd.Args) > 1 {
				s.endTransaction() // an EXEC that is refused ends WATCH too
				return s.fail(msgExecArity)
			}
			return !s.ready(c, cmd) || s.fail(msgExecAlone)
		},
		"DISCARD": func(s *session, c *command.Command, cmd resp.Command) bool {
			return !s.ready(c, cmd) || s.fail(msgDiscardAlone)
		},
		"WATCH":   (*session).watch,
		"UNWATCH": (*session).unwatch,
	}
}

// transaction is a session's state from MULTI or WATCH on. It has a connection of its own, so
// QUEUED, EXECABORT and the order of errors are Redis's.
//
// Leash sends the commands in batches. A batch is all that the client sent at once. Leash reads the
// replies before the client gets them. When the slot moves, Leash sends all commands since MULTI to
// the new owner. This is safe, because none has been executed.
//
// Only EXEC executes commands. Leash repeats it only if it certainly did not run. Only the
// session's loop uses a transaction.
type transaction struct {
	session *session
	node    *upstream.Node
	link    *upstream.Link // nil while nothing has been sent, or after a loss
	lane    upstream.Lane  // the lane that the link's connection is set up for
	slot    int            // of the keys; call.AnySlot before the first
	tracked bool           // the link belongs to client-side caching
	caching []byte         // CLIENT CACHING, sent before MULTI
	altered bool           // the connection is not as it was when new
	watched bool           // keys are watched on the link's connection
	voided  bool           // watched keys may have changed unseen: EXEC answers nil
	aborted bool           // Leash refused a command: EXEC answers EXECABORT

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
	done     func() // gives back what the user's limits count
}

// beginTransaction makes the session's transaction. It returns false if the user has too many.
func (s *session) beginTransaction(slot int) bool {
	done, ok := s.takeBlocked()
	if ok {
		s.tx = &transaction{session: s, slot: slot, done: done}
	}
	return ok
}

// length returns the number of commands since MULTI, with MULTI. It is 0 outside a transaction.
func (t *transaction) length() int64 {
	if t == nil {
		return 0
	}
	return int64(len(t.queue))
}

// queued is a command of a transaction as Redis gets it.
type queued struct {
	request []byte
	command *command.Command // Leash runs it after EXEC; nil: Redis does it all
	cmd     resp.Command
	foreign bool // its key is in another slot: Redis only checks whether it could be queued
	// amend corrects Redis's element of EXEC's reply; nil: it needs no correction.
	amend func(node *upstream.Node, element []byte) []byte
}

// multi begins a transaction. It sends nothing yet, because the first key among the next commands
// decides the node.
func (s *session) multi(c *command.Command, cmd resp.Command) bool {
	if !s.ready(c, cmd) {
		return true
	}
	if !s.router.AdoptTopology() || !s.router.Barrier() {
		return false
	}
	if s.tx == nil {
		if !s.beginTransaction(call.AnySlot) {
			return s.atLimit(limits.Blocked)
		}
	}
	s.modes |= modeMulti
	s.tx.caching = s.tracking.Load().TakePrefix()
	s.tx.add(queued{request: s.input.keep(cmd.Raw)})
	return true
}

// take runs a command between MULTI and EXEC. c is nil for a command in no table.
func (t *transaction) take(c *command.Command, cmd resp.Command) bool {
	s := t.session
	name := ""
	if c != nil {
		name = c.Name
	}
	switch alone := len(cmd.Args) == 1; {
	case name == "exec" && alone:
		return t.exec()
	case name == "exec":
		return t.awaitQueued() && s.answer(t.discard(resp.AppendError(nil, msgExecArity)))
	case name == "discard" && alone:
		return t.awaitQueued() && s.answer(t.discard([]byte(resp.OK)))
	case name == "quit":
		return t.awaitQueued() && s.quit(c, cmd)
	case name == "reset" && alone:
		return t.awaitQueued() && s.reset(c, cmd)
	case name == "multi" && alone:
		return t.awaitQueued() && s.fail(msgNestedMulti)
	case name == "watch" && !alone:
		return t.awaitQueued() && s.fail(msgWatchInMulti)
	}
	return t.enqueue(c, cmd)
}

// enqueue queues a command. Redis gets the command itself if it can run it on this connection.
// Otherwise Leash runs the command after EXEC, and Redis gets a PING in its place.
func (t *transaction) enqueue(c *command.Command, cmd resp.Command) bool {
	switch t.executor(c, cmd) {
	case byRedis:
		if c != nil && c.Name == "script|flush" {
			// earlier than necessary; a script that is missing before EXEC is then not reloaded
			t.session.server.scripts.clear()
		}
		t.propagates = t.propagates || c.MayPropagate()
		t.add(queued{request: t.session.input.keep(cmd.Raw), amend: t.session.publishedInside(c, cmd)})
	case byLeash:
		if refusal := t.refusal(c, cmd); refusal != "" {
			return t.awaitQueued() && t.refuse(refusal)
		}
		if t.own += len(cmd.Raw); t.own > maxReplay {
			return t.awaitQueued() && t.refuse(msgLargeOwn)
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
		if !t.awaitQueued() {
			return false
		}
		t.abort()
		return t.refuseInMulti(c, cmd)
	}
	if len(t.queue)-t.answered >= transactionBatch || t.size >= transactionBytes {
		return t.awaitQueued()
	}
	return true
}

func (t *transaction) add(q queued) {
	t.queue = append(t.queue, q)
	t.size += len(q.request)
	t.kept += len(q.request)
}

// refusal returns the reason why the user may not run a command that Leash runs. Redis reports such
// a reason when it queues a command.
func (t *transaction) refusal(c *command.Command, cmd resp.Command) string {
	s := t.session
	refusal, err := s.server.up.Refusal(s.ctx, s.router.Lane, c.Name, cmd.Args)
	if err != nil {
		s.server.log.Warn("cannot check the rights of a user", "user", s.router.Lane.User, "err", err)
		return merge.NotSent
	}
	return refusal
}

// refuse answers a queued command with an error. Nothing of the transaction is executed after that.
func (t *transaction) refuse(message string) bool {
	t.abort()
	return t.session.fail(message)
}

// abort records that Leash answers the next command with an error.
func (t *transaction) abort() {
	t.aborted = true
	t.failed(len(t.queue))
}

// failed records that the command at a position got an error.
func (t *transaction) failed(at int) {
	if t.failedAt == 0 {
		t.failedAt = at
	}
}

// crossed reports whether commands of several slots have been queued. A cluster node reports that
// at EXEC. After an earlier error it queues nothing, so it does not report it.
func (t *transaction) crossed() bool {
	return t.crossedAt > 0 && (t.failedAt == 0 || t.crossedAt < t.failedAt)
}

// refuseInMulti answers a command that cannot be part of a transaction.
func (t *transaction) refuseInMulti(c *command.Command, cmd resp.Command) bool {
	s := t.session
	switch {
	case command.IsOwn(cmd.Args[0]):
		return s.fail("ERR '" + string(quoted(cmd.Args[0], maxQuoted)) +
			"' is not allowed inside MULTI: a lock is not part of a transaction")
	case c != nil && c.Own != nil:
		return s.fail("ERR '" + c.Name + "' is not allowed inside MULTI: Redis does not know it")
	case c == nil:
		return s.unknown(cmd)
	case c.Class == command.Refused, refusalOf(c, cmd.Args) != "":
		return s.run(c, cmd)
	case c.Waits():
		return s.fail("ERR '" + c.Name +
			"' is not allowed inside MULTI: from Redis 7.2 on, it does not count there what this connection " +
			"wrote before")
	}
	return s.fail("ERR '" + c.Name + "' is not allowed inside MULTI on a cluster: no transaction spans several nodes")
}

// awaitQueued sends the commands that have not been sent and passes their replies on.
func (t *transaction) awaitQueued() bool {
	if t.answered == len(t.queue) {
		return true
	}
	answers, ok := t.transmit(nil)
	return ok && t.pass(answers)
}

// pass gives the client those of answers that it does not have yet, which are the last ones.
func (t *transaction) pass(answers []*route.Answer) bool {
	for _, a := range t.unanswered(answers) {
		if !t.session.answer(a.Bytes) {
			return false
		}
	}
	return true
}

// join returns one piece with the replies that the client does not have yet.
func (t *transaction) join(answers []*route.Answer) (joined []byte) {
	for _, a := range t.unanswered(answers) {
		joined = append(joined, a.Bytes...)
	}
	return joined
}

// unanswered returns the answers that the client does not have yet, and counts them as given.
func (t *transaction) unanswered(answers []*route.Answer) []*route.Answer {
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
func (t *transaction) discard(reply []byte) []byte {
	clean := t.link != nil && t.sent == 0 && !t.watched
	if t.link != nil && !clean {
		a := t.session.router.Gather(t.link, resp.AppendCommand(nil, "DISCARD"))[0]
		clean = string(a.Bytes) == resp.OK
	}
	t.end(clean)
	return reply
}

// end gives the connection back. If clean is set, it can be used again, because Redis has ended
// MULTI and WATCH on it.
func (t *transaction) end(clean bool) {
	t.unpin(clean)
	t.done()
	t.session.tx = nil
	t.session.modes &^= modeMulti
	t.session.updateDescription() // before the client can have read the answer
}

// endTransaction ends the session's transaction, if there is one.
func (s *session) endTransaction() {
	if s.tx != nil {
		s.tx.end(false)
	}
}

// nilReply is what EXEC answers when a watched key has changed.
func (s *session) nilReply() []byte {
	if s.router.Lane.RESP3 {
		return []byte(resp.Null)
	}
	return []byte("*-1\r\n")
}

// cloneCommand copies a command out of the buffer it was read into.
func cloneCommand(cmd resp.Command) resp.Command {
	clone, _ := resp.ParseRequest(bytes.Clone(cmd.Raw))
	return clone
}
