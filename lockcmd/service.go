package lockcmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/guard"
	"leash/lockcmd/event"
	"leash/lockcmd/failover"
	"leash/lockcmd/script"
	"leash/renewal"
)

// Service is all locks of one Leash. Make one with New, start Run, and give each connection a
// Carrier.
type Service struct {
	// Immutable after New.
	cfg     Config
	redis   *script.Client
	log     *slog.Logger
	uuid    string // this Leash, in owners and carriers
	fairBit string // this Leash, in the scores of FAIR waiters
	// how soon another Leash must refresh its FAIR waiters; tests set it
	fairHeartbeat time.Duration
	// after this time without an attempt a FAIR waiter is dead; tests set it
	fairTimeout time.Duration
	// how long BREAK waits for the holder's Leash; tests set it
	breakTimeout time.Duration
	// attempts to find a hold that a new master may lack; tests set it
	maxSeeks        int
	attemptInterval time.Duration // pause between a waiter's attempts; tests set it
	watchdog        *renewal.Watchdog
	events          leashEvents
	queues          *waitQueues
	dequeuer        dequeuer

	owners   atomic.Int64 // number of the last generated owner
	carriers atomic.Int64 // number of the last carrier
	draining atomic.Bool
	// lossWaitsEnd is done after EndLossWaits.
	lossWaitsEnd context.Context
	endLossWaits context.CancelFunc
	graces       *failover.Masters // nil without Config.FailoverGrace
	limits       *limits
	stats        counters

	// tasks are goroutines that outlive their command. Run waits for them.
	tasks sync.WaitGroup

	losses     chan loss     // to be logged
	lossesDone chan struct{} // closed by Run after the last loss

	// mu guards the fields below.
	mu     sync.Mutex
	holds  *index // the present holds of this Leash
	closed bool   // no more tasks begin
}

// New makes a Service. rdb is a *redis.Client or *redis.ClusterClient that speaks RESP2, does not
// retry (MaxRetries -1) and obeys deadlines (ContextTimeoutEnabled). subscriber receives messages.
// New does no I/O.
func New(cfg Config, rdb redis.UniversalClient, subscriber event.Subscriber, log *slog.Logger) (*Service, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, redis: script.New(rdb), log: log, uuid: newUUID(), fairBit: newFairBit(), fairTimeout: fairTimeout, fairHeartbeat: fairHeartbeat, attemptInterval: attemptInterval, breakTimeout: breakTimeout, maxSeeks: maxSeeks,
		lossesDone: make(chan struct{}), losses: make(chan loss, maxLosses), holds: newIndex(),
	}
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		if !c.Options().ContextTimeoutEnabled {
			return nil, errors.New("lockcmd: the client must be made with ContextTimeoutEnabled")
		}
	case *redis.Client:
		if !c.Options().ContextTimeoutEnabled {
			return nil, errors.New("lockcmd: the client must be made with ContextTimeoutEnabled")
		}
	default:
		return nil, fmt.Errorf("lockcmd: client is a %T, want *redis.Client or *redis.ClusterClient", rdb)
	}
	s.redis.Databases, s.redis.Timeout, s.redis.Log = cfg.Database, cfg.UpstreamTimeout, log
	s.redis.Publish = cfg.publishMode()
	s.redis.Send, s.redis.SendMany, s.redis.NodeAddr = cfg.SendScript, cfg.SendScripts, cfg.NodeAddr
	s.redis.Drop, s.redis.RefreshLinks = cfg.DropConnection, cfg.RefreshTopology
	s.watchdog = renewal.New(&store{Service: s})
	s.watchdog.Log = log
	s.limits = newLimits(s)
	if cfg.FailoverGrace != 0 {
		s.graces = failover.New(failover.Config{
			Grace: cfg.FailoverGrace, Lease: cfg.WatchdogTimeout, Owners: cfg.Owners, Redis: s.redis, Watchdog: s.watchdog, Log: log,
		})
	}
	s.queues = newWaitQueues()
	s.dequeuer.lists = make(map[lockID][]*dequeueRequest)
	s.lossWaitsEnd, s.endLossWaits = context.WithCancel(context.Background())
	s.events.listen(s, subscriber)
	return s, nil
}

// newUUID returns a random UUID, like that of a Redisson client.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Run receives wake-ups, renews holds and finishes what must be repeated. It returns when ctx has
// ended and all goroutines of the Service have, except one that a stuck log may hold up. A Service
// runs once.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.endLossWaits()
	var wg sync.WaitGroup
	loop := func(what string, run func(context.Context)) {
		wg.Go(func() { guard.Repeat(ctx, s.log, what, func() { run(ctx) }) })
	}
	loop("watchdog", func(ctx context.Context) { s.watchdog.Run(ctx) })
	loop("lock subscriptions", s.events.Run)
	loop("limits of holds", s.limits.run)
	loop("eviction warning", s.warnOfEviction)
	loop("question for commands", s.learnCommands)
	if s.graces != nil {
		loop("grace periods", s.graces.Run)
	}
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		guard.Repeat(context.Background(), s.log, "log of losses", s.logLosses)
	}()
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.redis.Stop(time.Now().Add(stopTimeout))
	wg.Wait()
	s.tasks.Wait()
	s.redis.Close()
	close(s.lossesDone)
	select {
	case <-logged:
	case <-time.After(logTimeout):
	}
	return nil
}

// learnCommands makes the cluster client ask for COMMAND now. Otherwise it does so before its first
// command, for up to 5 s, and all other commands wait for that.
func (s *Service) learnCommands(ctx context.Context) {
	if c, ok := s.redis.Redis.(*redis.ClusterClient); ok {
		c.Ping(ctx)
	}
}

// Drain stops the granting of locks. ACQUIRE, also one that waits, answers an error. Everything
// else goes on.
func (s *Service) Drain() {
	s.draining.Store(true)
	s.queues.wakeAll()
}

// EndLossWaits ends all waits of LOCK.AWAITLOSS, which go on during Drain, because their
// connections are about to be closed.
func (s *Service) EndLossWaits() { s.endLossWaits() }

// CheckAll checks every hold in Redis soon, because a new server may lack some. A hold that is
// missing is then reported as lost without waiting for its renewal. It does not block.
func (s *Service) CheckAll() { s.watchdog.CheckAll() }

// RenewAll renews every hold to its full TTL a last time (R31). It returns when Redis was asked for
// each, or when ctx ends. Run must be running.
func (s *Service) RenewAll(ctx context.Context) { s.watchdog.RenewAll(ctx) }

// stopTimeout is how long requests may still be sent and answered when the Service ends.
const stopTimeout = time.Second

// spawn runs f as a task of the Service. It returns false when the Service has ended; then holds
// expire.
func (s *Service) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.tasks.Go(guard.Func(s.log, "lock task", f))
	return true
}

// find returns the newest present hold of the lock for which match is true, or nil.
func (s *Service) find(lock lockID, match func(*hold) bool) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.holds.of(lock.key) {
		if h.lock() == lock && match(h) {
			return h
		}
	}
	return nil
}

// findAmong returns the newest of at most that many holds of key for which match is true, or nil.
// ok is false when it found none and there are more holds.
func (s *Service) findAmong(key string, most int, match func(*hold) bool) (found *hold, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.holds.of(key) {
		if most--; most < 0 {
			return nil, false
		}
		if match(h) {
			return h, true
		}
	}
	return nil, true
}

func (s *Service) index(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds.add(h)
}

// unindex removes h, which no carrier has any more. Another hold may get its entry from now on.
func (s *Service) unindex(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds.table.At(h.entry) == h {
		s.holds.remove(h)
		s.holds.table.Remove(h.entry)
	}
}

// register gives h an entry.
func (s *Service) register(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.entry = s.holds.table.Add(h)
}

// holdAt is the hold with that entry.
func (s *Service) holdAt(entry uint32) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds.table.At(entry)
}

// holdsAt are the holds with those entries.
func (s *Service) holdsAt(entries []uint32) (holds []*hold) {
	holds = make([]*hold, len(entries))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, n := range entries {
		holds[i] = s.holds.table.At(n)
	}
	return holds
}

// without removes x from list, in place.
func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// deadline is when an outcome that is still not known counts as unknown.
func (s *Service) deadline() time.Time { return time.Now().Add(s.cfg.UpstreamTimeout) }
