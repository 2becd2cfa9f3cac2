package transaction

import (
	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/route"
	"leash/proxy/slots"
	"leash/proxy/tracking"
)

// Session is what a Transaction needs of its session. Only the session's loop calls its methods.
type Session interface {
	// Forbids reports whether Leash does not let a command be part of a transaction. c is nil for a
	// command in no table.
	Forbids(c *command.Command, args [][]byte) bool
	// Forbid answers such a command. It returns false when the session ends.
	Forbid(c *command.Command, cmd resp.Command) bool
	// Queue prepares a command that Redis queues. It returns the request, which stays as it is, and
	// what corrects the reply, or nil.
	Queue(c *command.Command, cmd resp.Command) (request []byte, amend Amend)
	// Script returns the text of a script that Leash has seen, by its digest in lower-case
	// hexadecimal digits.
	Script(sha string) (text string, ok bool)
	// ScriptsChanged tells that Redis has executed an EVAL, EVAL_RO or SCRIPT FLUSH.
	ScriptsChanged(cmd resp.Command)
	// RunOwn runs a command that Leash runs after EXEC, and returns the reply. ok is false when the
	// session ends.
	RunOwn(c *command.Command, cmd resp.Command) (reply []byte, ok bool)
	// Subscribed reports whether the client has any subscription.
	Subscribed() bool
	// Refused counts an error by which a node refused a command for its slot.
	Refused(code []byte)
	// Over is called when the transaction has ended.
	Over()
}

// Amend corrects Redis's element of EXEC's reply.
type Amend func(node *links.Node, element []byte) []byte

// Config is what a Transaction uses of its session and of the server.
type Config struct {
	Session       Session
	*route.Router // the session's: its calls, its context and the nodes
	Tracking      *tracking.Client
	Done          func() // called when the transaction has ended, before Over
}

// New returns a transaction without commands and without watched keys.
func New(c Config) *Transaction { return &Transaction{Config: c, slot: slots.Any} }
