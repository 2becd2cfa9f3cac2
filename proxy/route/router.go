package route

import (
	"context"
	"log/slog"
	"sync"

	"leash/proxy/call"
	"leash/proxy/client"
	"leash/proxy/command"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/resp"
	"leash/proxy/rights"
	"leash/proxy/topology"
	"leash/proxy/upstream"
)

// Session is what a router needs of its session. Only the router's own goroutine calls its methods,
// except for Cache.
type Session interface {
	links.Permit
	// BeforeBarrier is called before the session waits for its calls.
	BeforeBarrier()
	// Source has the bytes of the current command.
	Source() call.Source
	// MayReadReplicas reports whether the state of the session allows reads from replicas.
	MayReadReplicas() bool
	// Cache is the session's client-side caching, or nil. Safe for concurrent use.
	Cache() Cache
}

// Cache is client-side caching, for which a session uses connections of its own.
type Cache interface {
	// Link returns the session's own connection to a node. Safe for concurrent use.
	Link(n *links.Node) *links.Link
	// Restart gives up all connections. No call is in flight.
	Restart()
	// HasPrefix reports whether a request is to be sent before the current command.
	HasPrefix() bool
	// TakePrefix returns that request, only once. It is nil if there is none.
	TakePrefix() []byte
}

// Config is what a session shares with its router and, by it, with the packages that serve the
// session. It is not changed after Init.
type Config struct {
	Context     context.Context // done when the session ends
	Up          *upstream.Upstream
	Rights      *rights.Checker
	Session     Session
	Calls       *call.Queue
	Out         *client.Output
	Mu          *sync.Mutex // the session's
	Log         *slog.Logger
	RequireAuth bool // clients must authenticate, also if Redis serves them without
}

// Router decides where the commands of one session go.
type Router struct {
	Config
	// ID is that of the session.
	ID int64
	// Command is the command that the session runs. It is nil if it is in no table.
	Command *command.Command
	// Lane is the session's lane. Only ChangeLane changes it.
	Lane dial.Lane

	topology *topology.Snapshot
	links    []*links.Link // by index of the master; nil until used
	reads    reads         // reads from replicas
	keyless  int           // index of the master that serves commands without keys; -1: none
	written  writtenNodes  // for WAIT
}

// Init prepares the router of a session.
func (r *Router) Init(c Config) {
	r.Config = c
	r.reads.wanted = c.Up.ReadsReplicas()
}

// Begin makes c the command that the session runs. c is nil for a command in no table. If replicas
// have calls of the session and c may not go to a replica, Begin waits for their replies first. It
// returns false when the session ends.
func (r *Router) Begin(c *command.Command) bool {
	r.Command = c
	if c != nil && c.Readable {
		return true
	}
	r.reads.wrote = true
	return !r.reads.replicas || r.leaveReplicas()
}

// EndPipeline records that all commands which arrived together have been run.
func (r *Router) EndPipeline() { r.reads.wrote = false }

// Barrier waits until every earlier call has its reply, so that the next call may use another
// connection.
func (r *Router) Barrier() bool {
	r.Session.BeforeBarrier()
	return r.Calls.Empty()
}

// Topology is the topology that the session uses.
func (r *Router) Topology() *topology.Snapshot { return r.topology }

// Keyless is the master that serves the session's commands without keys. It is nil if there is no
// master.
func (r *Router) Keyless() *links.Node {
	if r.keyless < 0 {
		return nil
	}
	return r.topology.Masters()[r.keyless]
}

// AdoptTopology changes to a new topology, after a barrier. All commands that were sent by the old
// topology have their replies before one is sent by the new topology, so their order is kept.
func (r *Router) AdoptTopology() bool {
	t := r.Up.Topology()
	if t == r.topology {
		return true
	}
	if !r.Barrier() {
		return false
	}
	r.setTopology(r.Up.Topology())
	return true
}

// setTopology sets the topology and forgets the links used so far. No call is in flight.
func (r *Router) setTopology(t *topology.Snapshot) {
	r.topology = t
	r.reads.forget()
	r.links = make([]*links.Link, len(t.Masters()))
	r.keyless = -1
	if n := len(t.Masters()); n > 0 {
		r.keyless = int(r.ID % int64(n))
	}
	r.restartCache()
}

// restartCache gives up the connections for client-side caching, if there are any.
func (r *Router) restartCache() {
	if cache := r.Session.Cache(); cache != nil {
		cache.Restart()
	}
}

// ChangeLane changes the session's lane to one that it has joined, and leaves the old lane. No call
// is in flight.
func (r *Router) ChangeLane(lane dial.Lane) {
	old := r.Lane
	r.Start(lane)
	clear(r.links)
	r.reads.forget()
	r.Up.Nodes.Leave(old)
	r.restartCache()
}

// Start sets the first lane, which the session has joined.
func (r *Router) Start(lane dial.Lane) {
	r.Mu.Lock()
	r.Lane = lane
	r.Mu.Unlock()
}

// Answer answers the current command, after the calls in flight. It returns false when the session
// ends.
func (r *Router) Answer(reply []byte) bool { return r.Calls.Answer(reply) }

// Fail answers the current command with an error. The message begins with the error's code.
func (r *Router) Fail(message string) bool { return r.Answer(resp.AppendError(nil, message)) }

// OK answers the current command with OK.
func (r *Router) OK() bool { return r.Answer([]byte(resp.OK)) }
