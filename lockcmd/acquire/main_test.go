package acquire

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/internal/faultproxy"
	"leash/internal/linktest"
	"leash/internal/redistest"
	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/release"
	"leash/lockcmd/restore"
	"leash/lockcmd/script"
	"leash/lockcmd/wait"
	"leash/renewal"
)

var (
	number atomic.Int64 // of the last key and of the last Leash
)

func TestMain(m *testing.M) { redistest.Main(m) }

func newLock() script.Lock { return script.Lock{Key: "k" + strconv.FormatInt(number.Add(1), 10)} }

// newKeys returns names in the order in which they sort.
func newKeys(n int) (keys []string) {
	name := newLock().Key
	for i := range n {
		keys = append(keys, name+"-"+string(rune('a'+i)))
	}
	return keys
}

// leash is a Leash that hears no messages of Redis. Its watchdog does not run.
type leash struct {
	*Acquirer
	rdb     *redis.Client
	end     func() // of its links
	running sync.WaitGroup
}

func newLeash(addr string, timeout time.Duration) *leash {
	links, end, err := linktest.Dial(addr)
	if err != nil {
		panic(err)
	}
	l := &leash{end: end, rdb: redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true,
	})}
	s, name := script.New(links), "leash"+strconv.FormatInt(number.Add(1), 10)
	s.Timeout, s.Log = timeout, slog.New(slog.DiscardHandler)
	r := &restore.Restorer{Redis: s}
	r.Holds = hold.NewRegistry(hold.Config{
		Leash: name, TTL: time.Minute, Watchdog: renewal.New(r), Service: l, Log: s.Log, Stopped: s.Stopped,
	})
	waiters := &Waiters{Machine: wait.New[Result](wait.Config{
		Leash: name, Redis: s, Channels: &event.Subscriptions{From: l, To: l}, Tasks: l, Interval: wait.Interval,
		Timeout: s.Timeout, Max: 100, FairTimeout: wait.FairTimeout,
	})}
	l.Acquirer = &Acquirer{
		Releaser: &release.Releaser{Restorer: r, Waiters: waiters, Tasks: l}, Waits: waiters, Granted: l.Granted,
	}
	return l
}

// close stops the Leash.
func (l *leash) close() {
	l.Redis.Stop(time.Now())
	l.running.Wait()
	l.rdb.Close()
	l.end()
}

func leashOf(t *testing.T) *leash {
	l := newLeash(redistest.SharedServer(t).Addr, 20*time.Second)
	t.Cleanup(l.close)
	return l
}

// faults makes a fault at each command that matches.
type faults = map[string]func(*faultproxy.Proxy, faultproxy.Match, ...faultproxy.Option) *faultproxy.Fault

// Connections break at lost ones. What is late comes when the fault is released.
var (
	lost = faults{"lost request": (*faultproxy.Proxy).DropBefore, "lost reply": (*faultproxy.Proxy).DropAfter}
	late = faults{"late request": (*faultproxy.Proxy).HoldBefore, "late reply": (*faultproxy.Proxy).HoldAfter}
)

// faultyLeashOf is a Leash with a proxy before Redis, which it waits for at most 3 s.
func faultyLeashOf(t *testing.T) (*leash, *faultproxy.Proxy) {
	p, err := faultproxy.New(redistest.SharedServer(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	l := newLeash(p.Addr(), 3*time.Second)
	t.Cleanup(l.close)
	return l, p
}

// connect makes the carrier of a connection.
func (l *leash) connect() *Carrier {
	c := &Carrier{Acquirer: l.Acquirer}
	c.Init(l.Holds, number.Add(1), hold.Client{Name: "127.0.0.1:5000"}, l, l)
	return c
}

// take acquires free locks.
func (c *Carrier) take(t *testing.T, opts Options, keys ...string) (tokens []int64) {
	t.Helper()
	for _, key := range keys {
		opts.Key = key
		r := c.Acquire(t.Context(), opts)
		if r.Kind != Granted {
			t.Fatalf("%s: got %+v", key, r)
		}
		tokens = append(tokens, r.Token)
	}
	return tokens
}

// releaseNewest releases one count of the connection's newest hold of a key.
func (c *Carrier) releaseNewest(t *testing.T, key string) {
	t.Helper()
	h := c.Newest(script.Lock{Key: key}, func(*hold.Hold) bool { return true })
	if h == nil {
		t.Errorf("the connection has no hold of %s", key)
		return
	}
	if _, _, err := c.Acquirer.Release(h, false, c.Acquirer.Redis.Deadline()); err != nil {
		t.Error(err)
	}
}

// taken says which of the keys are locked in Redis.
func (l *leash) taken(keys []string) (taken []bool) {
	for _, key := range keys {
		taken = append(taken, l.rdb.Exists(context.Background(), key).Val() == 1)
	}
	return taken
}

// Spawn implements wait.Tasks.
func (l *leash) Spawn(f func()) bool { l.running.Go(f); return true }

// Follow implements hold.Service.
func (l *leash) Follow(changes []hold.Change) (released <-chan struct{}) {
	var releases []hold.Change
	for _, ch := range changes {
		if ch.Has(hold.StartRelease) {
			releases = append(releases, ch)
		}
	}
	return l.EndAll(releases)
}

func (*leash) Lost(*hold.Hold, string)           {}
func (*leash) Granted(*hold.Hold, time.Duration) {}
func (*leash) End([]byte, string)                {}
func (*leash) Watch(hold.Attention)              {}
func (*leash) Push([]byte) bool                  { return false }
func (*leash) SilentSince() time.Time            { return time.Time{} }
func (*leash) Receive(event.Event)               {}
func (*leash) Wake(script.Lock, string, bool)    {}

// Subscribe implements event.Subscriber. It is subscribed at once and receives nothing.
func (*leash) Subscribe(string, bool, bool, func([]byte)) (ready <-chan struct{}, unsubscribe func()) {
	subscribed := make(chan struct{})
	close(subscribed)
	return subscribed, func() {}
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !is(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("it did not happen: %s", what)
		}
	}
}
