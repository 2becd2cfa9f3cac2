package acquire

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
	server *redistest.Server // the tests share it, and each has its own keys
	number atomic.Int64      // of the last key and of the last Leash
)

func TestMain(m *testing.M) {
	var err error
	if server, err = redistest.Launch(redistest.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Close()
	os.Exit(code)
}

func newLock() script.Lock { return script.Lock{Key: "k" + strconv.FormatInt(number.Add(1), 10)} }

// leash is a Leash that hears no messages of Redis. Its watchdog does not run.
type leash struct {
	*Acquirer
	rdb     *redis.Client
	running sync.WaitGroup
}

func newLeash(addr string) *leash {
	l := &leash{rdb: redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true,
	})}
	s, name := script.New(l.rdb), "leash"+strconv.FormatInt(number.Add(1), 10)
	s.Timeout, s.Log = 20*time.Second, slog.New(slog.DiscardHandler)
	r := &restore.Restorer{Redis: s}
	r.Holds = hold.NewRegistry(hold.Config{
		Leash: name, TTL: time.Minute, Watchdog: renewal.New(r), Service: l, Log: s.Log, Stopped: s.Stopped,
	})
	waiters := &Waiters{Machine: wait.New[Result](wait.Config{
		Leash: name, Redis: s, Channels: &event.Subscriptions{From: l, To: l}, Tasks: l, Interval: wait.Interval,
		Timeout: s.Timeout, Max: 100, FairBit: wait.NewFairBit(), FairTimeout: wait.FairTimeout,
		FairHeartbeat: wait.FairHeartbeat,
	})}
	l.Acquirer = &Acquirer{
		Releaser: &release.Releaser{Restorer: r, Waiters: waiters, Tasks: l}, Waiters: waiters, Observer: l,
	}
	return l
}

// close stops the Leash.
func (l *leash) close() {
	l.Redis.Stop(time.Now())
	l.running.Wait()
	l.rdb.Close()
}

func leashOf(t *testing.T) *leash {
	l := newLeash(server.Addr)
	t.Cleanup(l.close)
	return l
}

// connect makes the carrier of a connection.
func (l *leash) connect() *Carrier {
	c := &Carrier{Acquirer: l.Acquirer}
	c.Init(l.Holds, number.Add(1), hold.Client{Name: "127.0.0.1:5000"}, l, l)
	return c
}

// Spawn implements wait.Tasks.
func (l *leash) Spawn(f func()) bool { l.running.Go(f); return true }

// Follow implements hold.Service.
func (l *leash) Follow(_ time.Time, changes []hold.Change) (released <-chan struct{}) {
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
