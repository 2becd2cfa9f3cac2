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
	"leash/renewal"
)

// Service is the locks of one Leash. Make one with New, let Run run, and give every connection a
// Carrier.
type Service struct {
	// Immutable after New.
	cfg     Config
	rdb     redis.UniversalClient
	cluster bool
	log     *slog.Logger
	uuid    string // this Leash, in owners and carriers
	fairBit string // this Leash, among those through which FAIR waiters are heard of
	// in which another Leash must let hear of a waiter of its that has left through this one;
	// soonHeard but in tests
	fairHeartbeat time.Duration
	// after which a FAIR waiter that was not heard of counts as dead; waitPatience but in tests
	fairTimeout time.Duration
	// for how long BREAK leaves it to the holder's Leash to end a hold; breakPatience but in tests
	breakTimeout time.Duration
	// looks for a hold that a new master may have forgotten; maxSeeks but in tests
	maxSeeks        int
	attemptInterval time.Duration // how often a waiter looks for itself; lookEvery but in tests
	watchdog        *renewal.Watchdog
	subscriber      *subscriber
	queues          *waitQueues
	permitQueues    *permitQueues
	dequeuer        dequeuer

	owners   atomic.Int64 // the last ownerless hold's number
	carriers atomic.Int64 // the last carrier's number
	draining atomic.Bool
	// lossWaitsEnd ends by Dismiss.
	lossWaitsEnd   context.Context
	endLossWaits   context.CancelFunc
	notifying      atomic.Int64 // carriers with LOCK.NOTIFY
	successorWaits atomic.Int64 // holds in bereft; changed with mu held
	waitClients    waitClients
	graces         *gracePeriods // nil without Config.FailoverGrace
	recentEnds     recentEnds
	limits         *limits
	refusals       refusals
	stats          counters

	// tasks are the goroutines that outlive the command that began them; stop tells them that the
	// Service ends. Run waits.
	tasks        sync.WaitGroup
	stop         chan struct{} // closed by Run
	stopDeadline time.Time     // set before stop is closed: no request is on its way for longer

	losses     chan loss     // to be logged
	lossesDone chan struct{} // closed by Run when there will be no more losses

	// mu guards the fields below.
	mu                sync.Mutex
	holds             *index                    // the present holds of this Leash
	pendingEvents     map[holdRef]pendingEvents // what was heard of holds that are not among them yet
	awaitingSuccessor map[lockID][]*hold        // lost holds whose clients are to be told who gets the lock next
	closed            bool                      // no more tasks begin
}

// New makes a Service whose locks live behind rdb, a *redis.Client or *redis.ClusterClient that
// speaks RESP2, does not retry (MaxRetries -1) and obeys deadlines (ContextTimeoutEnabled), and who
// hears of their ends from ears. It does no I/O.
func New(cfg Config, rdb redis.UniversalClient, subscriber Subscriber, log *slog.Logger) (*Service, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, rdb: rdb, log: log, uuid: newUUID(), fairBit: newFairBit(), fairTimeout: fairTimeout, fairHeartbeat: fairHeartbeat, attemptInterval: attemptInterval, breakTimeout: breakTimeout, maxSeeks: maxSeeks,
		stop: make(chan struct{}), lossesDone: make(chan struct{}), losses: make(chan loss, maxLosses), holds: newIndex(), pendingEvents: make(map[holdRef]pendingEvents),
		awaitingSuccessor: make(map[lockID][]*hold),
	}
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		s.cluster = true
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
	s.watchdog = renewal.New(&store{Service: s})
	s.watchdog.Log = log
	s.graces, s.limits = newGracePeriods(s), newLimits(s)
	s.queues, s.permitQueues = newWaitQueues(), newPermitQueues()
	s.dequeuer.lists = make(map[lockID][]*dequeueRequest)
	s.lossWaitsEnd, s.endLossWaits = context.WithCancel(context.Background())
	s.subscriber = newSubscriber(s, subscriber)
	return s, nil
}

// newUUID is a random UUID, as a Redisson client has one.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Run listens for wake-ups, keeps the holds, and finishes what has to be repeated. It returns when
// ctx has ended and every goroutine of the Service has, but one that the log does not let go; the
// Service cannot be run again.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.endLossWaits()
	var wg sync.WaitGroup
	loop := func(what string, run func(context.Context)) {
		wg.Go(func() { guard.Repeat(ctx, s.log, what, func() { run(ctx) }) })
	}
	loop("watchdog", func(ctx context.Context) { s.watchdog.Run(ctx) })
	loop("lock subscriptions", s.subscriber.run)
	loop("limits of holds", s.limits.run)
	loop("eviction warning", s.warnOfEviction)
	loop("question for commands", s.learnCommands)
	if s.graces != nil {
		loop("grace periods", s.graces.watch)
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
	s.stopDeadline = time.Now().Add(stopTimeout)
	close(s.stop)
	wg.Wait()
	s.tasks.Wait()
	s.waitClients.close()
	close(s.lossesDone)
	select {
	case <-logged:
	case <-time.After(logTimeout):
	}
	return nil
}

// learnCommands lets the cluster client ask for COMMAND now. It does so before its first command,
// of some node and for up to 5 s, and until it has an answer everybody else's command waits for
// that.
func (s *Service) learnCommands(ctx context.Context) {
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		c.Ping(ctx)
	}
}

// Drain ends the granting of locks: ACQUIRE answers an error, and so do those who wait. Everything
// else goes on.
func (s *Service) Drain() {
	s.draining.Store(true)
	s.queues.wakeAll()
	s.permitQueues.wakeAll()
}

// EndLossWaits lets those answer who wait in AWAITLOSS, which goes on through Drain: the connection is
// about to be closed.
func (s *Service) EndLossWaits() { s.endLossWaits() }

// CheckAll asks Redis soon for every hold: the server that has them is another one now, and may not
// have heard of all. A hold that it does not have is told as lost then, not when it would next be
// renewed. It does not block.
func (s *Service) CheckAll() { s.watchdog.CheckAll() }

// RenewAll renews every hold a last time to its full TTL, and returns when Redis was asked for each
// or ctx has ended (R31). Run must be running.
func (s *Service) RenewAll(ctx context.Context) { s.watchdog.RenewAll(ctx) }

// stopTimeout is for how long requests may still go out, and be answered, when the Service ends.
const stopTimeout = time.Second

// capAtStop is until, or less when the Service ends.
func (s *Service) capAtStop(until time.Time) time.Time {
	select {
	case <-s.stop:
		if s.stopDeadline.Before(until) {
			return s.stopDeadline
		}
	default:
	}
	return until
}

// spawn runs f as a task of the Service. Once the Service has ended it does nothing and reports
// false: what is still held then runs out.
func (s *Service) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.tasks.Go(guard.Func(s.log, "lock task", f))
	return true
}

// find is the newest present hold of the lock for which match says yes, nil when there is none.
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

// findAmong is the newest present hold of key for which match says yes, nil when there is none. ok
// is false when it was not among that many, and there are more.
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

// unindex takes h out, of which no carrier knows any more. Its entry may be another one's from now
// on.
func (s *Service) unindex(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds.table.At(h.entry) == h {
		s.holds.remove(h)
		s.holds.table.Remove(h.entry)
	}
}

// register gives h its entry.
func (s *Service) register(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.entry = s.holds.table.Add(h)
}

// holdAt is the hold of that entry.
func (s *Service) holdAt(entry uint32) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds.table.At(entry)
}

// holdsAt are the holds of those entries.
func (s *Service) holdsAt(entries []uint32) (holds []*hold) {
	holds = make([]*hold, len(entries))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, n := range entries {
		holds[i] = s.holds.table.At(n)
	}
	return holds
}

// without takes x out of list, in place.
func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// deadline is when an outcome that is not known by then counts as unknown.
func (s *Service) deadline() time.Time { return time.Now().Add(s.cfg.UpstreamTimeout) }
