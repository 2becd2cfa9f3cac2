package locktest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/linktest"
	"leash/internal/redistest"
	"leash/lockcmd"
	"leash/lockcmd/event"
	"leash/lockcmd/release"
	"leash/lockcmd/script"
	"leash/proxy/pubsub"
	"leash/proxy/upstream"
)

// IdleService returns a Service that does nothing by itself.
func IdleService(t testing.TB) *lockcmd.Service {
	rdb, log := DialServer(t, redistest.SharedServer(t).Addr), slog.New(slog.DiscardHandler)
	up := linktest.Open(t, rdb, log)
	return NewService(lockcmd.Config{}, rdb, up, log)
}

// clients are the clients of the Redis of each Service, for the data of tests.
var clients sync.Map // *lockcmd.Service to redis.UniversalClient

// RedisOf is the client that a Service was started with. Nothing of the Service goes through it.
func RedisOf(s *lockcmd.Service) redis.UniversalClient {
	rdb, _ := clients.Load(s)
	return rdb.(redis.UniversalClient)
}

// NewService makes a Service of this Redis, whose links are up, without more.
func NewService(cfg lockcmd.Config, rdb redis.UniversalClient, up *upstream.Upstream,
	log *slog.Logger) *lockcmd.Service {
	s := lockcmd.New(cfg, up, pubsub.New(up, log), log)
	clients.Store(s, rdb)
	return s
}

// WatchdogTimeout is Config.WatchdogTimeout if it is not set.
const WatchdogTimeout = 30 * time.Second

// Start starts a Service for a test. It returns when the Service receives events. It calls prepare
// before the start.
func Start(t testing.TB, rdb redis.UniversalClient, cfg lockcmd.Config,
	prepare ...func(*lockcmd.Service)) *lockcmd.Service {
	t.Helper()
	s := NewLeash(t, rdb, cfg)
	for _, p := range prepare {
		p(s)
	}
	kill := RunService(s)
	t.Cleanup(kill)
	WaitUntilSubscribed(t, s)
	return s
}

// NewLeash makes a Service that does not run: it renews nothing and receives no events.
func NewLeash(t testing.TB, rdb redis.UniversalClient, cfg lockcmd.Config) *lockcmd.Service {
	t.Helper()
	if cfg.UpstreamTimeout == 0 {
		cfg.UpstreamTimeout = time.Minute // for a busy machine
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	up := linktest.Open(t, rdb, log)
	s := NewService(cfg, rdb, up, log)
	LongBreakTimeout(s)
	return s
}

// SlowRetries makes waiters retry only once a minute. A waiter that gets in earlier was woken.
func SlowRetries(s *lockcmd.Service) { s.Waits.Interval = time.Minute }

// LongBreakTimeout lets BREAK wait long enough for a busy machine.
func LongBreakTimeout(s *lockcmd.Service) { s.Releaser.BreakTimeout = 5 * time.Second }

// PatientBreak lets BREAK wait for a Leash that is kept from its answer for a while.
func PatientBreak(s *lockcmd.Service) { s.Releaser.BreakTimeout = Soon }

// DefaultBreakTimeout sets the time that BREAK waits back to the value used in production.
func DefaultBreakTimeout(s *lockcmd.Service) { s.Releaser.BreakTimeout = release.BreakTimeout }

// WaitUntilSubscribed waits until a running Service is subscribed to its own channel. Earlier
// events would be lost.
func WaitUntilSubscribed(t testing.TB, s *lockcmd.Service) {
	t.Helper()
	Eventually(t, Soon, "the Service is subscribed to its channel", func() bool {
		n, err := NumListeners(RedisOf(s), s.Events.Own, (*redis.Client).PubSubNumSub)
		return err == nil && n > 0
	})
}

// StartKillable returns a Leash and a function that kills it. After the kill it does and sends
// nothing more.
func StartKillable(t testing.TB, rdb redis.UniversalClient, cfg lockcmd.Config) (s *lockcmd.Service, kill func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	up := linktest.Open(t, rdb, log)
	s = NewService(cfg, rdb, up, log)
	kill = RunService(s)
	t.Cleanup(kill)
	WaitUntilSubscribed(t, s)
	return s, kill
}

// Deliver gives a Service an event as from its channel.
func Deliver(s *lockcmd.Service, text string) {
	if e, ok := event.Parse(text); ok {
		s.Events.Receive(e)
	}
}

// RunService runs a Service until stop is called. stop waits for its end.
func RunService(s *lockcmd.Service) (stop func()) {
	return inBackground(func(ctx context.Context) { s.Run(ctx) })
}

// inBackground runs something until stop is called. stop waits for its end.
func inBackground(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// SubscribeFirst subscribes s to a lock's channel. A waiter then does not need a second attempt
// after its own subscription.
func SubscribeFirst(t testing.TB, s *lockcmd.Service, channel, key string) {
	t.Helper()
	Receive(t, s.Events.Subscribe(channel, script.Lock{Key: key}), 5*time.Second)
}

// WantAnotherRenewal waits until the watchdog has renewed holds once more.
func WantAnotherRenewal(t *testing.T, s *lockcmd.Service) {
	t.Helper()
	before := s.Stats().Renewals
	s.Watchdog.CheckAll()
	Eventually(t, time.Second, "holds are renewed", func() bool { return s.Stats().Renewals > before })
}
