package proxy

import (
	"leash/internal/limits"
	"leash/proxy/chunk"
	"leash/proxy/command"
	"leash/proxy/masters"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/subscribers"
	"leash/proxy/transaction"
)

func transactionHandlers() handlers {
	return handlers{
		"MULTI":   ready(multi),
		"WATCH":   ready(watch),
		"UNWATCH": ready(unwatch),
		"EXEC": func(s *session, c *command.Command, cmd resp.Command) bool {
			if len(cmd.Args) > 1 {
				s.tx.End() // an EXEC that is refused ends WATCH too
				return s.router.Fail(transaction.ExecArity)
			}
			return !s.router.Ready(c, cmd) || s.router.Fail(msgExecAlone)
		},
		"DISCARD": ready(func(s *session, _ *command.Command, _ resp.Command) bool {
			return s.router.Fail(msgDiscardAlone)
		}),
	}
}

const (
	msgExecAlone    = "ERR EXEC without MULTI"
	msgDiscardAlone = "ERR DISCARD without MULTI"
)

// beginTransaction makes the session's transaction if there is none. It returns an error if the
// user has too many.
func (s *session) beginTransaction() (refusal string) {
	if s.tx != nil {
		return ""
	}
	done, refusal := s.limits.Take(limits.Blocked)
	if refusal == "" {
		s.tx = transaction.New(transaction.Config{
			Session: transactionSession{callSession{s}}, Router: &s.router, Tracking: &s.tracking, Done: done,
		})
	}
	return refusal
}

func multi(s *session, _ *command.Command, cmd resp.Command) bool {
	if !s.router.AdoptTopology() || !s.router.Barrier() {
		return false
	}
	if refusal := s.beginTransaction(); refusal != "" {
		return s.router.Fail(refusal)
	}
	s.modes |= modeMulti
	s.tx.Begin(s.input.keep(cmd.Raw), s.router.TakePrefix())
	return true
}

func watch(s *session, _ *command.Command, cmd resp.Command) bool {
	if !s.router.AdoptTopology() || !s.router.Barrier() {
		return false
	}
	s.out.Flush()
	if refusal := s.beginTransaction(); refusal != "" {
		return s.router.Fail(refusal)
	}
	return s.tx.Watch(cmd)
}

// unwatch clears the list of watched keys.
func unwatch(s *session, _ *command.Command, cmd resp.Command) bool {
	switch {
	case s.tx == nil:
		return s.router.OK()
	case !s.router.Barrier():
		return false
	}
	s.tx.Unwatch(cmd)
	return s.router.OK()
}

// queue runs a command between MULTI and EXEC. c is nil for a command in no table.
func (s *session) queue(c *command.Command, cmd resp.Command) bool {
	switch {
	case c == nil:
	case c.Name == "quit":
		return s.tx.AwaitQueued() && quit(s, c, cmd)
	case c.Name == "reset" && len(cmd.Args) == 1:
		return s.tx.AwaitQueued() && reset(s, c, cmd)
	}
	return s.tx.Take(c, cmd)
}

// transactionSession is a session as its transaction sees it.
type transactionSession struct{ callSession }

var _ transaction.Session = transactionSession{}

// Forbids implements transaction.Session.
func (s transactionSession) Forbids(c *command.Command, args [][]byte) bool {
	return c == nil || c.Class == command.LeashOnly || c.Class == command.Refused || masters.Refusal(c, args) != "" ||
		route.TwoReplies(c, args) != "" ||
		c.Waits() && !s.server.up.IsBefore(7, 2) // it would answer for the transaction's connection
}

// Forbid implements transaction.Session.
func (s transactionSession) Forbid(c *command.Command, cmd resp.Command) bool {
	switch {
	case command.IsOwn(cmd.Args[0]):
		return s.router.Fail("ERR '" + string(command.Quoted(cmd.Args[0], command.MaxQuoted)) +
			"' is not allowed inside MULTI: a lock is not part of a transaction")
	case c != nil && c.Own != nil:
		return s.router.Fail("ERR '" + c.Name + "' is not allowed inside MULTI: Redis does not know it")
	case c == nil:
		return s.unknown(cmd)
	case c.Class == command.Refused, masters.Refusal(c, cmd.Args) != "", route.TwoReplies(c, cmd.Args) != "":
		return s.run(c, cmd)
	}
	return s.router.Fail("ERR '" + c.Name +
		"' is not allowed inside MULTI: from Redis 7.2 on, it does not count there what this connection wrote before")
}

// Queue implements transaction.Session.
func (s transactionSession) Queue(c *command.Command, cmd resp.Command) (request []byte, amend transaction.Amend) {
	if c.Name == "script|flush" {
		// earlier than necessary; a script that is missing before EXEC is then not reloaded
		s.server.scripts.Clear()
	}
	return s.input.keep(cmd.Raw), subscribers.Inside(s.server.exchange, c, cmd)
}

// Script implements transaction.Session.
func (s transactionSession) Script(sha string) (text string, ok bool) {
	return s.server.scripts.Find(sha)
}

// ScriptsChanged implements transaction.Session.
func (s transactionSession) ScriptsChanged(cmd resp.Command) {
	if resp.IsWord(cmd.Args[0], "SCRIPT") {
		s.server.scripts.Clear()
	} else {
		s.server.scripts.Ran(cmd)
	}
}

// RunOwn implements transaction.Session. Only the reply to PING depends on the modes of the
// session.
func (s transactionSession) RunOwn(c *command.Command, cmd resp.Command) (reply []byte, ok bool) {
	return s.capture(func() bool {
		if c.Name == "ping" {
			return s.dispatch(cmd)
		}
		return s.run(c, cmd)
	})
}

// Subscribed implements transaction.Session.
func (s *session) Subscribed() bool { return s.subscriber.Load().Len() > 0 }

// Over implements transaction.Session.
func (s transactionSession) Over() {
	s.tx = nil
	s.modes &^= modeMulti
	s.updateDescription() // before the client can have read the answer
}

// capture runs f, which runs commands of the session. It returns their replies instead of sending
// them to the client. It is a barrier in both directions. ok is false when the session ends.
func (s *session) capture(f func() bool) (reply []byte, ok bool) {
	if !s.router.Barrier() {
		return nil, false
	}
	var taken chunk.List
	s.calls.SendTo(&taken)
	ok = f() && s.router.Barrier()
	s.calls.SendTo(nil)
	reply = make([]byte, 0, taken.Len())
	taken.TakeAll(func(p []byte) { reply = append(reply, p...) })
	return reply, ok
}
