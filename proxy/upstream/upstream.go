// Package upstream is the side of Leash that talks to Redis. It has the nodes, the connections to
// them, and the topology, which says which node owns which slot.
//
// # Types
//
//	Upstream   all of it: a Redis Cluster, a single Redis, or one that sentinels name
//	Topology   which node owns which slot; a snapshot that never changes
//	Node       one Redis server, and whether it is alive
//	Link       the one connection to a node that all sessions of a lane share
//	Call       one command on a link; its Sink takes the reply
//
// How to connect to a node is known to the dial.Dialer.
//
// A session asks the Topology for the node of a slot, the Node for its Link in the session's lane,
// and submits a Call. The reply's bytes come to the Sink of the Call. Node.Pin gives a session a
// link of its own (pin.go).
//
// # Redirects and lost connections
//
// The caller follows redirects, because only the caller knows what it may send again without a
// change in the order of a session's commands. It reports a MOVED with Upstream.Moved. A call that
// was written is never repeated here. A call that was not written goes out on the next connection.
//
// # Concurrency
//
// Everything is safe for concurrent use unless it says otherwise. All goroutines belong to the
// Upstream. They have ended when Run returns.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/guard"
	"leash/proxy/dial"
)

// Config says where Redis is and how long to wait for it. It is not changed after New.
type Config struct {
	dial.Config

	Addrs []string // host:port of at least one node, or sentinel
	Mode  string   // auto (also if empty), cluster, standalone or sentinel

	// the master's name in the sentinels; set it in mode sentinel, or in mode auto to choose that
	// mode
	SentinelMaster string

	ReadFrom string // ReadMaster (also if empty), ReadReplica or ReadNearest

	// pinned links per node; if zero, Redis's maxclients less a reserve
	MaxPinned int
	// how long Connect waits for an unreachable Redis; if negative, without a limit
	Wait time.Duration
}

// Upstream is a Redis Cluster or a single Redis.
type Upstream struct {
	*dial.Dialer
	cfg         Config
	log         *slog.Logger
	refreshing  chan struct{} // size 1: a refresh is wanted
	onRefused   func(dial.Lane)
	onSwitch    func()
	sentinels   sentinels
	movingUntil atomic.Int64 // Unix nanoseconds; 0 for never

	topology     atomic.Pointer[Topology]
	discovering  chan struct{}             // size 1: a goroutine reads the topology
	discoveredAt atomic.Pointer[time.Time] // when the last successful reading of the topology began
	turn         atomic.Uint32             // index of the node that AnyNode takes next
	pinnedOut    atomic.Int64              // pinned links in use
	pinLimit     atomic.Int64              // Config.MaxPinned as it is now
	busy         atomic.Int64              // nodes that run a slow script
	stats        counters
	answers      answers
	version      string // redis_version, set by Connect
	maxBulk      int64  // proto-max-bulk-len, set by Connect
	maxClients   int    // maxclients, set by Connect; 0 for unknown

	// mu guards the fields below. Never held across I/O.
	mu    sync.Mutex
	nodes map[string]*Node
	peers []string // every address that may know the topology
	// addresses of a cluster's masters and replicas that work
	members     map[string]bool
	silentAddrs map[string]bool // addresses that did not answer the last question
	sessions    map[dial.Lane]int
	users       map[string]int // sessions of each user over all lanes
	running     sync.WaitGroup
	ctx         context.Context
	stop        context.CancelCauseFunc
	stopped     bool
	clients     map[int]redis.UniversalClient // by database
	changes     changeLog

	lost lostNodes
}

// New checks cfg. It does no I/O and starts nothing.
func New(cfg Config, log *slog.Logger) (*Upstream, error) {
	if len(cfg.Addrs) == 0 {
		return nil, errors.New("upstream: no address")
	}
	switch cfg.Mode {
	case "", "auto":
		if cfg.SentinelMaster != "" {
			cfg.Mode = "sentinel"
		}
	case "cluster", "standalone", "sentinel":
	default:
		return nil, fmt.Errorf("upstream: unknown mode %q", cfg.Mode)
	}
	u := &Upstream{
		cfg: cfg, log: log,
		refreshing:  make(chan struct{}, 1),
		discovering: make(chan struct{}, 1),
		nodes:       make(map[string]*Node),
		sessions:    make(map[dial.Lane]int),
		users:       make(map[string]int),
		silentAddrs: make(map[string]bool),
		clients:     make(map[int]redis.UniversalClient),
		peers:       cfg.Addrs,
		maxBulk:     defaultMaxBulk,
	}
	if u.followsSentinels() {
		u.sentinels = sentinels{addrs: cfg.Addrs, epoch: -1, watched: make(map[string]context.CancelFunc),
			urgent: make(chan struct{}, 1)}
		u.peers = nil
	}
	u.Dialer = dial.New(cfg.Config, u.followsSentinels(), u.closeAnonymous, log)
	u.SetMaxPinned(cfg.MaxPinned)
	u.ctx, u.stop = context.WithCancelCause(context.Background())
	return u, nil
}

// OnRefused sets the function to call when Redis refuses a credential that it accepted before. Call
// it before Run.
func (u *Upstream) OnRefused(f func(dial.Lane)) { u.onRefused = f }

// OnSwitch sets the function to call after the sentinels have named another master and Leash uses
// it. The function must not block. Call OnSwitch before Run.
func (u *Upstream) OnSwitch(f func()) { u.onSwitch = f }

// Run keeps the topology and the nodes' state up to date until ctx is done. Then it closes every
// link, and returns when all goroutines have ended. Call Connect first.
func (u *Upstream) Run(ctx context.Context) error {
	defer u.end()
	u.start("watch of authentication", u.watchAuth)
	if u.cfg.ReadPassword != nil {
		u.start("watch of the password", u.watchPassword)
	}
	if u.ReadsReplicas() && u.cfg.Mode == "cluster" {
		u.start("watch of moving slots", u.watchMoves)
	}
	regular, least := refreshInterval, minRefresh
	if u.followsSentinels() {
		regular, least = sentinelPoll, sentinelMinAgain
	}
	refresh := time.NewTimer(regular)
	defer refresh.Stop()
	var failing bool
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-refresh.C:
		case <-u.refreshing:
		case <-u.sentinels.urgent:
		}
		err := u.refresh(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			u.log.Warn("topology refresh failed", "err", err)
		}
		failing = err != nil
		next := regular
		if u.lost.some() {
			next = min(next, lostRefresh)
		}
		refresh.Reset(next)
		select {
		case <-ctx.Done():
		case <-time.After(least):
		case <-u.sentinels.urgent:
			u.Refresh()
		}
	}
}

// refresh is discover with a guard, so that a panic about a node's answer does not end the loop.
func (u *Upstream) refresh(ctx context.Context) error {
	return guard.Call(u.log, "topology refresh", func() error { return u.discover(ctx) })
}

// watchAuth asks every probeInterval whether clients must authenticate.
func (u *Upstream) watchAuth() {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-u.ctx.Done():
			return
		case <-tick.C:
		}
		if n := u.AnyNode(); n != nil {
			ctx, cancel := context.WithTimeout(u.ctx, dial.AskTimeout)
			_ = u.probeAuth(ctx, n.Addr) // the node's links report errors
			cancel()
		}
	}
}

func (u *Upstream) end() {
	u.mu.Lock()
	u.stopped = true
	u.mu.Unlock()
	u.stop(ErrClosed)
	u.running.Wait()
}

// start runs f as a goroutine that end waits for. It returns false when the Upstream has stopped.
// When f panics, it is started again.
func (u *Upstream) start(what string, f func()) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return false
	}
	u.startLocked(what, f)
	return true
}

func (u *Upstream) startLocked(what string, f func()) {
	u.running.Go(func() { guard.Repeat(u.ctx, u.log, what, f) })
}

// Topology returns the newest snapshot.
func (u *Upstream) Topology() *Topology { return u.topology.Load() }

// Mode is the upstream's mode: cluster, standalone or sentinel. Call it after Connect.
func (u *Upstream) Mode() string { return u.cfg.Mode }

// Version is the redis_version that the upstream reported at Connect.
func (u *Upstream) Version() string { return u.version }

// SpeaksRESP3 reports whether the upstream knows HELLO 3: Redis 6 and later.
func (u *Upstream) SpeaksRESP3() bool {
	major, _, _ := strings.Cut(u.version, ".")
	n, err := strconv.Atoi(major)
	return err != nil || n >= 6
}

// HasUsers reports whether the upstream has ACL users: Redis 6 and later.
func (u *Upstream) HasUsers() bool { return u.SpeaksRESP3() }

// MaxBulk is the largest argument that Redis accepts, in bytes. A longer one is a protocol error,
// which would end the link for all its sessions.
func (u *Upstream) MaxBulk() int64 { return u.maxBulk }

// Abandon breaks every connection to Redis, so that each call in flight is lost at once. It is for
// a stop: later calls are lost too.
func (u *Upstream) Abandon() {
	u.stop(ErrClosed)
	u.mu.Lock()
	nodes := u.nodesLocked()
	u.mu.Unlock()
	for _, n := range nodes {
		n.eachLink(func(l *Link) { l.close(ErrClosed) })
	}
}
