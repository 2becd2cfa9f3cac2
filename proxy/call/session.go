package call

import (
	"log/slog"
	"time"

	"leash/proxy/command"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/slots"
	"leash/proxy/slowlog"
)

// Session is what calls need of their session. Its methods do not block, and all are safe for
// concurrent use.
type Session interface {
	links.Permit
	// Submit sends a request on the session's link to a node: to a replica or to a master.
	Submit(n *links.Node, replica bool, c *links.Request)
	// Go runs f on a goroutine of the session. It returns false when the server has stopped.
	Go(what string, f func()) bool
	// Replied is called with each piece of a reply from a node, before the client gets it.
	Replied(n *links.Node, c *Call)
	// Redirected is called when a part of c goes to another node than at first. If uncached is set,
	// the client must not cache the reply, although it asked to.
	Redirected(n *links.Node, c *Call, uncached bool)
	// Failed is called when a command of that class is answered with an error.
	Failed(class uint8)
	// Slow is called before the reply of a slow command is passed on, with the command as it was
	// sent to n, the time before it was sent, and the time until it was answered.
	Slow(request []byte, n *links.Node, queued, answered time.Duration)
	// Refused is called with the error by which a node of a cluster may have refused a command for
	// its slot.
	Refused(code []byte)
	// IdleLocked is called when no call is in flight any more. The session's mutex is held.
	IdleLocked()
	// End ends the session, because the client cannot get the rest of a reply.
	End(reason string)
	// Fail ends the session after a panic.
	Fail()
}

// Path brings requests to nodes on a connection of their own. Its methods do not block.
type Path interface {
	// Submit sends a request to a node. The request may be lost before it returns.
	Submit(n *links.Node, c *links.Request)
	// Abandoned reports whether the client has gone and needs no reply.
	Abandoned() bool
}

// Server is what the calls of all sessions share. It is not changed after its first use.
type Server struct {
	Nodes    Nodes
	Commands command.Table
	// Script returns the text of a script that a client has sent, by its SHA1 digest.
	Script func(digest string) (text string, ok bool)
	Slow   *slowlog.Log
	Log    *slog.Logger
}

// Nodes is what is known of the nodes of Redis. An upstream.Upstream knows it. Its methods do not
// block and are safe for concurrent use.
type Nodes interface {
	Mode() string // cluster, sentinel or standalone
	Cluster() bool
	NodeOf(slot slots.Slot) *links.Node
	OtherNode(n *links.Node) *links.Node
	// Target is the node that a redirect names, or nil. trusted means that only Redis can have made
	// the redirect.
	Target(addr string, from *links.Node, trusted bool) *links.Node
	Moved(slot slots.Slot, to *links.Node)
	NoteMoving() // slots move now
	Refresh()    // the topology should be read again
	RedirectTimeout() time.Duration
}

// lookup returns the command of a request, and its arguments. It is nil for an unknown command.
func (s *Server) lookup(request []byte) (*command.Command, [][]byte) {
	cmd, ok := resp.ParseRequest(request)
	if !ok {
		return nil, nil
	}
	return s.Commands.Lookup(cmd.Args), cmd.Args
}
