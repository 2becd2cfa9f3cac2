package links

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"leash/internal/guard"
	"leash/proxy/dial"
)

// Hooks are what the nodes tell the owner of the topology, and ask it. Only IsMember may block.
type Hooks struct {
	// IsMember asks the Redis at an address whether it belongs to the cluster. The error says that
	// it does not, or that it cannot be reached. sure is false if nobody knows. nil: all belong.
	IsMember func(ctx context.Context, addr string) (sure bool, err error)

	Refresh func()                         // the topology should be read again
	Refused func(lane dial.Lane, by *Node) // Redis refuses the credential of a lane
	Demoted func(n *Node)                  // the address of the only master leads to another server
}

// Server is what is known of Redis. It is set before the first link is made.
type Server struct {
	MaxBulk    int64 // proto-max-bulk-len
	MaxClients int   // maxclients; 0 for unknown
	Single     bool  // a single Redis without sentinels
}

// Nodes are all nodes, and the sessions that use links to them.
type Nodes struct {
	Dialer *dial.Dialer
	Server Server
	log    *slog.Logger
	hooks  Hooks

	pinLimit atomic.Int64 // set by SetMaxPinned
	busy     atomic.Int64 // nodes that run a slow script
	stats    counters
	lost     lostNodes

	ctx     context.Context
	stop    context.CancelCauseFunc
	running sync.WaitGroup

	// mu guards the fields below. It is the last in the order of mutexes.
	mu       sync.Mutex
	nodes    map[string]*Node // by address
	sessions map[dial.Lane]int
	users    map[string]int // sessions of each user over all lanes
	stopped  bool
}

// New returns a set without nodes. It starts nothing. asksRole is that of dial.New.
func New(cfg dial.Config, asksRole bool, hooks Hooks, log *slog.Logger) *Nodes {
	ns := &Nodes{
		Server: Server{MaxBulk: DefaultMaxBulk}, log: log, hooks: hooks,
		nodes: make(map[string]*Node), sessions: make(map[dial.Lane]int), users: make(map[string]int),
	}
	ns.Dialer = dial.New(cfg, asksRole, ns.closeAnonymous, log)
	ns.ctx, ns.stop = context.WithCancelCause(context.Background())
	return ns
}

// DefaultMaxBulk is Redis's default proto-max-bulk-len, used when Redis cannot be asked.
const DefaultMaxBulk = 512 << 20

// Context is done when the nodes have ended.
func (ns *Nodes) Context() context.Context { return ns.ctx }

// End closes every link, and returns when all goroutines have ended.
func (ns *Nodes) End() {
	ns.mu.Lock()
	ns.stopped = true
	ns.mu.Unlock()
	ns.stop(ErrClosed)
	ns.running.Wait()
}

// Go runs f as a goroutine that End waits for. It returns false if the nodes have ended. f must end
// when its ctx is done. When f panics, it is started again.
func (ns *Nodes) Go(what string, f func(ctx context.Context)) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if !ns.stopped {
		ns.goLocked(what, func() { f(ns.ctx) })
	}
	return !ns.stopped
}

func (ns *Nodes) goLocked(what string, f func()) {
	ns.running.Go(func() { guard.Repeat(ns.ctx, ns.log, what, f) })
}

// Node returns the node at an address, and makes it if it is new.
func (ns *Nodes) Node(addr string) *Node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	n := ns.nodes[addr]
	if n != nil {
		return n
	}
	n = &Node{Addr: addr, nodes: ns, links: make(map[dial.Lane]*Link), wanted: make(chan struct{}, 1)}
	n.identity.asking = make(chan struct{}, 1)
	n.identity.checked.Store(-1)
	n.ctx, n.cancel = context.WithCancelCause(ns.ctx)
	ns.nodes[addr] = n
	if !ns.stopped {
		ns.goLocked("liveness", n.watch)
	}
	return n
}

// Known returns the node at an address, or nil if there is none.
func (ns *Nodes) Known(addr string) *Node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.nodes[addr]
}

// All returns the nodes, in any order.
func (ns *Nodes) All() []*Node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return slices.Collect(maps.Values(ns.nodes))
}

// Remove takes a node out of the set. Its address may come back as a new node. The node's links go
// on until Close.
func (ns *Nodes) Remove(n *Node) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.nodes[n.Addr] == n {
		delete(ns.nodes, n.Addr)
	}
}

// Abandon breaks every connection to Redis, so that each request in flight is lost at once. It is
// for a stop: later requests are lost too.
func (ns *Nodes) Abandon() {
	ns.stop(ErrClosed)
	for _, n := range ns.All() {
		n.eachLink(func(l *Link) { l.close(ErrClosed) })
	}
}
