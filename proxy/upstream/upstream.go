package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/proxy/dial"
	"leash/proxy/links"
	"leash/proxy/topology"
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
	Nodes  *links.Nodes
	Dialer *dial.Dialer // that of Nodes

	cfg         Config
	log         *slog.Logger
	refreshing  chan struct{} // size 1: a refresh is wanted
	onRefused   func(dial.Lane)
	onSwitch    func()
	sentinels   sentinels
	movingUntil atomic.Int64 // Unix nanoseconds; 0 for never

	topology     atomic.Pointer[topology.Snapshot]
	discovering  chan struct{}             // size 1: a goroutine reads the topology
	ids          atomic.Pointer[[]string]  // of the cluster's nodes; nil before they are known
	foreign      map[string]bool           // addresses that do not know the cluster; only discovering uses it
	discoveredAt atomic.Pointer[time.Time] // when the last successful reading of the topology began
	turn         atomic.Uint32             // index of the node that AnyNode takes next
	version      string                    // redis_version, set by Connect

	// mu guards the fields below. Never held across I/O.
	mu    sync.Mutex
	peers []string // every address that may know the topology
	// addresses of a cluster's masters and replicas that work
	members     map[string]bool
	silentAddrs map[string]bool // addresses that did not answer the last question
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
		silentAddrs: make(map[string]bool),
		foreign:     make(map[string]bool),
		peers:       cfg.Addrs,
	}
	if u.followsSentinels() {
		u.sentinels = sentinels{addrs: cfg.Addrs, epoch: -1, watched: make(map[string]context.CancelFunc),
			urgent: make(chan struct{}, 1)}
		u.peers = nil
	}
	u.Nodes = links.New(cfg.Config, u.followsSentinels(),
		links.Hooks{IsMember: u.isMember, Refresh: u.Refresh, Refused: u.refuse, Demoted: u.replace}, log)
	u.Dialer = u.Nodes.Dialer
	u.Nodes.SetMaxPinned(cfg.MaxPinned)
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
	defer u.Nodes.End()
	u.Nodes.Go("watch of authentication", func(ctx context.Context) {
		every(ctx, probeInterval, func(ctx context.Context) {
			if n := u.AnyNode(); n != nil {
				_ = u.probeAuth(ctx, n.Addr) // the node's links report errors
			}
		})
	})
	if u.cfg.ReadPassword != nil {
		u.Nodes.Go("watch of the password", func(context.Context) { u.watchPassword() })
	}
	if u.ReadsReplicas() && u.cfg.Mode == "cluster" {
		u.Nodes.Go("watch of moving slots", func(ctx context.Context) {
			every(ctx, movesInterval, u.lookForMoves)
		})
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
		err := guard.Call(u.log, "topology refresh", func() error { return u.discover(ctx, time.Now()) })
		if err != nil && !failing && ctx.Err() == nil {
			u.log.Warn("topology refresh failed", "err", err)
		}
		failing = err != nil
		next := regular
		if u.Nodes.SomeLost() {
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

// every calls ask at an interval until ctx is done. It may block for dial.AskTimeout.
func every(ctx context.Context, interval time.Duration, ask func(context.Context)) {
	links.Every(ctx, interval, func(time.Time) {
		timed, cancel := context.WithTimeout(ctx, dial.AskTimeout)
		defer cancel()
		ask(timed)
	})
}

// Mode is the upstream's mode: cluster, standalone or sentinel. Call it after Connect.
func (u *Upstream) Mode() string { return u.cfg.Mode }

// Version is the redis_version that the upstream reported at Connect.
func (u *Upstream) Version() string { return u.version }

// SpeaksRESP3 reports whether the upstream knows HELLO 3 and ACL users: Redis 6 and later. It is
// true if the version is unknown.
func (u *Upstream) SpeaksRESP3() bool { return !u.IsBefore(6, 0) }

// IsBefore reports whether the upstream is older than a version of Redis. It is false if the
// version is unknown.
func (u *Upstream) IsBefore(major, minor int) bool {
	m, n, known := u.release()
	return known && (m < major || m == major && n < minor)
}

// release has the first two numbers of Version. known is false without them.
func (u *Upstream) release() (major, minor int, known bool) {
	n, _ := fmt.Sscanf(u.version, "%d.%d", &major, &minor)
	return major, minor, n == 2
}

// RedirectTimeout is how long a call may search for its node.
func (u *Upstream) RedirectTimeout() time.Duration { return u.Dialer.RedirectTimeout() }

// MaxBulk is the largest argument that Redis accepts, in bytes. A longer one is a protocol error,
// which would end the link for all its sessions.
func (u *Upstream) MaxBulk() int64 { return u.Nodes.Server.MaxBulk }
