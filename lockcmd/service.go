package lockcmd

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/lockcmd/acquire"
	"leash/lockcmd/event"
	"leash/lockcmd/failover"
	"leash/lockcmd/hold"
	"leash/lockcmd/release"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/lockcmd/view"
	"leash/lockcmd/wait"
	"leash/renewal"
)

// Service is all locks of one Leash. Make one with New, start Run, and give each connection a
// Carrier.
type Service struct {
	*view.Viewer

	// What it consists of, for tests that look inside or set times before Run. Immutable after New.
	Redis    *script.Client
	Watchdog *renewal.Watchdog
	Graces   *failover.Masters // nil without Config.FailoverGrace
	Events   leashEvents
	Waits    *acquire.Waiters
	Releaser *release.Releaser
	Holds    *hold.Registry

	// Immutable after New.
	cfg      Config
	log      *slog.Logger
	acquirer *acquire.Acquirer
	recorder *view.Recorder

	tasks guard.Tasks // that outlive their command; when they have ended, holds expire

	maxHold atomic.Int64 // Config.MaxHold as Change has set it
}

// New makes a Service for the Redis that has these links. subscriber receives messages. Losses wait
// for log, so it must not block for long. New does no I/O.
func New(cfg Config, links transport.Links, subscriber event.Subscriber, log *slog.Logger) *Service {
	cfg = cfg.withDefaults()
	s := &Service{cfg: cfg, Redis: script.New(links), log: log, recorder: view.NewRecorder(log)}
	s.Redis.Timeout, s.Redis.Log = cfg.UpstreamTimeout, log
	s.Redis.Publish = publishModes[cfg.Publish]
	restorer := &restore.Restorer{Redis: s.Redis, TokenTTL: cfg.TokenTTL, MaxSeeks: restore.MaxSeeks}
	s.Watchdog = renewal.New(restorer)
	s.Watchdog.Log = log
	s.Holds = hold.NewRegistry(hold.Config{
		Leash: newUUID(), TTL: cfg.WatchdogTimeout, Cluster: s.Redis.IsCluster, Watchdog: s.Watchdog,
		Service: afterwards{s}, Log: log, Stopped: s.Redis.Stopped,
	})
	if cfg.NameHolds != nil {
		s.Holds.Count = cfg.NameHolds.Add
	}
	restorer.Holds = s.Holds
	if cfg.FailoverGrace != 0 {
		s.Graces = failover.New(failover.Config{
			Grace: cfg.FailoverGrace, Lease: cfg.WatchdogTimeout, Redis: s.Redis,
			Watchdog: s.Watchdog, Log: log,
		})
	}
	restorer.Masters = s.Graces
	s.tasks.Log, s.tasks.What = log, "lock task"
	s.Waits = &acquire.Waiters{Machine: wait.New[acquire.Result](wait.Config{
		Leash: s.Holds.Leash, Redis: s.Redis, Channels: &s.Events.Subscriptions, Tasks: &s.tasks,
		Interval: wait.Interval, Timeout: cfg.UpstreamTimeout, Max: cfg.MaxWaiters, FairTimeout: wait.FairTimeout,
	})}
	s.Releaser = &release.Releaser{
		Restorer: restorer, Waiters: s.Waits, Tasks: &s.tasks, BreakTimeout: release.BreakTimeout,
	}
	s.acquirer = &acquire.Acquirer{
		Releaser: s.Releaser, Waits: s.Waits, Granted: s.granted, Names: cfg.NameHolds,
	}
	s.Viewer = view.New(s.acquirer, s.recorder)
	s.Change(cfg)
	s.Events.listen(s, subscriber)
	return s
}

// Run receives wake-ups, renews holds and finishes what must be repeated. It returns when ctx has
// ended and all goroutines of the Service have. A Service runs once.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.EndLossWaits()
	var wg sync.WaitGroup
	loop := func(what string, run func(context.Context)) {
		wg.Go(func() { guard.Repeat(ctx, s.log, what, func() { run(ctx) }) })
	}
	loop("watchdog", func(ctx context.Context) { s.Watchdog.Run(ctx) })
	loop("lock subscriptions", s.Events.Run)
	loop("eviction warning", s.warnOfEviction)
	if s.Graces != nil {
		loop("grace periods", s.Graces.Run)
	}
	<-ctx.Done()
	s.tasks.End()
	s.Redis.Stop(time.Now().Add(stopTimeout))
	wg.Wait()
	s.tasks.Wait()
	return nil
}

// Drain stops the granting of locks. ACQUIRE, also one that waits, answers an error. Everything
// else goes on.
func (s *Service) Drain() { s.Waits.Drain() }

// EndLossWaits ends all waits of LOCK.AWAITLOSS, which go on during Drain, because their
// connections are about to be closed.
func (s *Service) EndLossWaits() { s.Events.endLossWaits() }

// CheckAll checks every hold in Redis soon, because a new server may lack some. A hold that is
// missing is then reported as lost without waiting for its renewal. It does not block.
func (s *Service) CheckAll() { s.Watchdog.CheckAll() }

// RenewAll renews every hold to its full TTL a last time (R31). It returns when Redis was asked for
// each, or when ctx ends. Run must be running.
func (s *Service) RenewAll(ctx context.Context) { s.Watchdog.RenewAll(ctx) }

// stopTimeout is how long requests may still be sent and answered at the end.
const stopTimeout = time.Second

// AddObserver adds one who is told of what happens to holds, see view.Observer. It is not safe for
// concurrent use with itself.
func (s *Service) AddObserver(o view.Observer) { s.recorder.AddObserver(o) }

// deadline is when an outcome that is still not known counts as unknown.
func (s *Service) deadline() time.Time { return s.Redis.Deadline() }

// newUUID returns a random UUID, like that of a Redisson client.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// warnOfEviction warns in the log about masters that may evict locks when their memory is full
// (R2). Every lock has a TTL, so all policies but noeviction may evict it:
// https://redis.io/docs/latest/develop/reference/eviction/. A server that does not tell its policy
// is skipped.
func (s *Service) warnOfEviction(ctx context.Context) {
	for _, own := range s.Redis.SlotsByMaster() {
		if ctx.Err() != nil {
			return
		}
		node := s.Redis.Links.NodeAddr(own[0])
		until := time.Now().Add(transport.MaxAttempt) // each has its own time, because one may be silent
		policy, err := s.Redis.InfoField(until, own[0], "memory", "maxmemory_policy")
		switch {
		case err != nil:
			s.log.Debug("maxmemory-policy is not known", "node", node, "err", err)
		case policy != "" && policy != "noeviction":
			s.log.Warn("Redis may evict locks when its memory is full: set maxmemory-policy to noeviction", "node",
				node, "policy", policy)
		}
	}
}
