package lockcmd

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/embedded"
	"leash/internal/redistest"
	"leash/lockcmd/acquire"
	"leash/lockcmd/event"
	"leash/lockcmd/release"
	"leash/lockcmd/script"
	"leash/proxy/pubsub"
	"leash/proxy/upstream"
)

// The shared servers are used by many tests at once. Each test uses its own keys.
var shared struct {
	once, clusterOnce sync.Once
	server            *redistest.Server
	cluster           *redistest.Cluster
}

func msgLost(key, reason string) string { return string(acquire.Loss(key, reason)) }

// noLog drops go-redis's own log.
type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// atOnce is how many tests run at the same time, whatever -parallel says. They wait nearly all the
// time, and with 8 the package takes 3 minutes.
const atOnce = 16

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	redis.SetLogger(noLog{})
	code := m.Run()
	if shared.server != nil {
		shared.server.Close()
	}
	if shared.cluster != nil {
		shared.cluster.Close()
	}
	os.Exit(code)
}

func sharedServer(t testing.TB) *redistest.Server {
	t.Helper()
	var err error
	shared.once.Do(func() { shared.server, err = redistest.Launch(redistest.Options{}) })
	if err != nil || shared.server == nil {
		t.Fatalf("redis-server: %v", err)
	}
	return shared.server
}

func sharedCluster(t testing.TB) *redistest.Cluster {
	t.Helper()
	redistest.NeedsCluster(t)
	var err error
	shared.clusterOnce.Do(func() { shared.cluster, err = redistest.LaunchCluster(redistest.ClusterOptions{}) })
	if err != nil || shared.cluster == nil {
		t.Fatalf("cluster: %v", err)
	}
	return shared.cluster
}

// dialServer returns a client as package upstream makes it.
func dialServer(t testing.TB, addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
		DialTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, PoolSize: 64,
	})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func dialCluster(t testing.TB, addrs ...string) *redis.ClusterClient {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
		DialTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, PoolSize: 64,
	})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// both runs a test on a single Redis and on a cluster in parallel.
func both(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	server := sharedServer(t)
	runParallel(t, map[string]func(t *testing.T){
		"single":  func(t *testing.T) { test(t, dialServer(t, server.Addr)) },
		"cluster": func(t *testing.T) { test(t, dialCluster(t, sharedCluster(t).Addrs()...)) },
	})
}

// everyRedis runs a test on a single Redis, on a cluster and on the embedded Redis. The embedded
// Redis has another Lua: a failed match returns no value instead of nil, and numeric text is not
// formatted as a number.
func everyRedis(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	server := sharedServer(t)
	inside, err := embedded.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inside.Close)
	runParallel(t, map[string]func(t *testing.T){
		"single":   func(t *testing.T) { test(t, dialServer(t, server.Addr)) },
		"cluster":  func(t *testing.T) { test(t, dialCluster(t, sharedCluster(t).Addrs()...)) },
		"embedded": func(t *testing.T) { test(t, dialServer(t, inside.Addr())) },
	})
}

// runParallel runs tests in parallel and returns when all have ended. Tests mostly wait.
func runParallel(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() { t.Run(name, test) })
	}
	all.Wait()
}

// leash starts a Service for a test. It returns when the Service receives events. It calls prepare
// before the start.
func leash(t testing.TB, rdb redis.UniversalClient, cfg Config, prepare ...func(*Service)) *Service {
	t.Helper()
	s := stillLeash(t, rdb, cfg)
	for _, p := range prepare {
		p(s)
	}
	kill := runService(s)
	t.Cleanup(kill)
	waitUntilSubscribed(t, s)
	return s
}

// stillLeash makes a Service that does not run: it renews nothing and receives no events.
func stillLeash(t testing.TB, rdb redis.UniversalClient, cfg Config) *Service {
	t.Helper()
	if cfg.UpstreamTimeout == 0 {
		cfg.UpstreamTimeout = time.Minute // for a busy machine
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	up := upstreamOf(t, rdb, log)
	if _, slow := cfg.Links.(noDirectPath); slow {
		cfg.Links = noDirectPath{up}
	} else {
		cfg.Links = up
	}
	cfg.Owners = up.Owners
	s := New(cfg, rdb, pubsub.New(up, log), log)
	longBreakTimeout(s)
	return s
}

// slowRetries makes waiters retry only once a minute. A waiter that gets in earlier was woken.
func slowRetries(s *Service) { s.Waits.Interval = time.Minute }

// longBreakTimeout lets BREAK wait long enough for a busy machine.
func longBreakTimeout(s *Service) { s.Releaser.BreakTimeout = 5 * time.Second }

// patientBreak lets BREAK wait for a Leash that is kept from its answer for a while.
func patientBreak(s *Service) { s.Releaser.BreakTimeout = soon }

// defaultBreakTimeout sets the time that BREAK waits back to the value used in production.
func defaultBreakTimeout(s *Service) { s.Releaser.BreakTimeout = release.BreakTimeout }

// soon is an upper limit for operations that nothing delays, on a busy machine. It is much shorter
// than the retry interval of a slowRetries Service, and shorter than the lease of a dead holder.
const soon = 20 * time.Second

// waitUntilSubscribed waits until a running Service is subscribed to its own channel. Earlier
// events would be lost.
func waitUntilSubscribed(t testing.TB, s *Service) {
	t.Helper()
	eventually(t, soon, "the Service is subscribed to its channel", func() bool {
		n, err := numListeners(s.Redis.Redis, s.Events.Own, (*redis.Client).PubSubNumSub)
		return err == nil && n > 0
	})
}

// killableLeash returns a Leash and a function that kills it. After the kill it does and sends
// nothing more.
func killableLeash(t testing.TB, rdb redis.UniversalClient, cfg Config) (s *Service, kill func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	s = New(cfg, rdb, proxySubscriber(t, rdb, log), log)
	kill = runService(s)
	t.Cleanup(kill)
	waitUntilSubscribed(t, s)
	return s, kill
}

// receive gives the Service an event as from its channel.
func (s *Service) receive(text string) {
	if e, ok := event.Parse(text); ok {
		s.Events.Receive(e)
	}
}

// runService runs a Service until stop is called. stop waits for its end.
func runService(s *Service) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// proxySubscriber returns the proxy's own subscriber for the Redis of rdb.
func proxySubscriber(t testing.TB, rdb redis.UniversalClient, log *slog.Logger) event.Subscriber {
	t.Helper()
	return pubsub.New(upstreamOf(t, rdb, log), log)
}

// upstreamOf returns the proxy's upstream for the Redis of rdb.
func upstreamOf(t testing.TB, rdb redis.UniversalClient, log *slog.Logger) *upstream.Upstream {
	t.Helper()
	cfg := upstream.Config{Wait: soon}
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		cfg.Addrs = c.Options().Addrs
	case *redis.Client:
		cfg.Addrs = []string{c.Options().Addr}
	}
	up, err := upstream.New(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Connect(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		up.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return up
}

// conn is a client connection as tests use it. It implements Host.
type conn struct {
	t       testing.TB
	carrier *Carrier
	ctx     context.Context
	gone    context.CancelFunc
	waits   atomic.Int64
	guarded atomic.Bool
	losses  chan string // "key reason"
	moved   chan string // keys
	pushes  chan string // "word key token", for RESP3 only
	resp3   bool
	silence atomic.Pointer[time.Time] // since when the client is silent; nil if it is not
}

var lastConn atomic.Int64

// lockOf is the lock of key in database 0.
func lockOf(key string) script.Lock { return script.Lock{Key: key} }

const testClientName = "127.0.0.1:5000 test"

func connect(t testing.TB, s *Service) *conn {
	c := &conn{t: t, losses: make(chan string, 1000), moved: make(chan string, 1000), pushes: make(chan string, 1000)}
	c.ctx, c.gone = context.WithCancel(context.Background())
	c.carrier = s.NewCarrier(lastConn.Add(1), Client{Name: testClientName}, c, c)
	return c
}

// End implements Host.
func (c *conn) End(key []byte, reason string) {
	if reason == ReasonMoved {
		c.moved <- string(key)
		return
	}
	c.losses <- string(key) + " " + reason
}

// Watch implements Host.
func (c *conn) Watch(a Attention) {
	if a == Waiting {
		c.waits.Add(1)
		return
	}
	c.guarded.Store(a == Guarded)
}

// SilentSince implements Host.
func (c *conn) SilentSince() time.Time {
	if at := c.silence.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// goSilent makes the client silent from now on.
func (c *conn) goSilent() {
	now := time.Now()
	c.silence.Store(&now)
}

func (c *conn) speak() { c.silence.Store(nil) }

// Push implements Host. It stores the words of a notice without their lengths.
func (c *conn) Push(frame []byte) bool {
	if len(frame) == 0 {
		return c.resp3
	}
	lines := strings.Split(string(frame), "\r\n")
	if lines[0] != "*4" || lines[2] != "lock" {
		c.t.Errorf("pushed %q", frame)
		return false
	}
	c.pushes <- lines[4] + " " + lines[6] + " " + strings.TrimPrefix(strings.Join(lines[7:len(lines)-1], " "), ":")
	return true
}

// do runs a command and returns its reply without the last line end.
func (c *conn) do(args ...string) string {
	c.t.Helper()
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	defer c.carrier.Answered()
	return strings.TrimSuffix(string(c.carrier.Do(c.ctx, nil, raw)), "\r\n")
}

// start runs a command in the background.
func (c *conn) start(args ...string) <-chan string {
	reply := make(chan string, 1)
	go func() { reply <- c.do(args...) }()
	return reply
}

// token runs an ACQUIRE that must be granted and returns the token.
func (c *conn) token(args ...string) int64 {
	c.t.Helper()
	return tokenOf(c.t, c.do(append([]string{"LOCK.ACQUIRE"}, args...)...))
}

func tokenOf(t testing.TB, reply string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
	if err != nil || n < 1 || !strings.HasPrefix(reply, ":") {
		t.Fatalf("got reply %q, want a token", reply)
	}
	return n
}

func want(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got reply %q, want %q", got, want)
	}
}

func wantPrefix(t testing.TB, got, want string) {
	t.Helper()
	if !strings.HasPrefix(got, want) {
		t.Fatalf("got reply %q, want %q...", got, want)
	}
}

// busyTimeout returns how long a test waits for something that an idle machine does within the
// given time. A busy machine needs longer.
func busyTimeout(within time.Duration) time.Duration { return max(10*within, soon) }

// onTime runs a test with exact times. If it fails and the machine had stalled, it runs the test
// again.
func onTime(t testing.TB, test func() error) {
	t.Helper()
	const tick, stall = 10 * time.Millisecond, 200 * time.Millisecond
	for try := 1; ; try++ {
		var longest time.Duration
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for last := time.Now(); ; last = time.Now() {
				select {
				case <-stop:
					return
				case <-time.After(tick):
					longest = max(longest, time.Since(last))
				}
			}
		}()
		err := test()
		close(stop)
		<-done
		if err == nil {
			return
		}
		if longest < stall || try == 10 {
			t.Fatalf("%v, and the machine stalled for %v at the most", err, longest)
		}
		t.Logf("once more, for the machine stalled for %v: %v", longest, err)
	}
}

// subscribeFirst subscribes s to a lock's channel. A waiter then does not need a second attempt
// after its own subscription.
func subscribeFirst(t testing.TB, s *Service, channel, key string) {
	t.Helper()
	receive(t, s.Events.Subscribe(channel, script.Lock{Key: key}), 5*time.Second)
}

// receive returns the next value of c. An idle machine delivers it within the given time. $ waits
// for much longer.
func receive[T any](t testing.TB, c <-chan T, within time.Duration) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(busyTimeout(within)):
		t.Fatalf("nothing came within %v", busyTimeout(within))
		panic("unreachable")
	}
}

// woken returns the next value of c, which a wake-up must bring. It fails long before a retry or
// the end of a lease of 30 s could bring it.
func woken[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(soon):
		t.Fatalf("not woken within %v", soon)
		panic("unreachable")
	}
}

// eventually polls until ok returns true. An idle machine needs at most the time within. A busy one
// gets much longer.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(busyTimeout(within)); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", busyTimeout(within), what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func exists(t testing.TB, rdb redis.UniversalClient, key string) bool {
	t.Helper()
	n, err := rdb.Exists(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

var lastKey atomic.Int64

// newKey returns a key that no other test uses.
func newKey() string { return "lock" + strconv.FormatInt(lastKey.Add(1), 10) }

// takesLong skips a test in the quick run.
func takesLong(t *testing.T) { t.Helper(); redistest.TakesLong(t) }
