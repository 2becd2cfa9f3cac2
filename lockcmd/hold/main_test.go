package hold

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"leash/renewal"
)

// leash is a Registry whose holds Redis knows nothing of. It implements Service.
type leash struct {
	*Registry
	mu       sync.Mutex
	losses   []string // "key reason"
	released []*Hold  // holds whose release was to begin
}

func newLeash() *leash {
	l := &leash{}
	l.Registry = NewRegistry(Config{
		Leash: "one", TTL: time.Minute, Watchdog: renewal.New(nowhere{}), Service: l,
		Log: slog.New(slog.DiscardHandler),
	})
	return l
}

// Lost implements Service.
func (l *leash) Lost(h *Hold, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses = append(l.losses, h.Key()+" "+reason)
}

// Follow implements Service. It notes releases and leaves them in progress.
func (l *leash) Follow(changes []Change) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ch := range changes {
		if ch.Has(StartRelease) {
			l.released = append(l.released, ch.Hold)
		}
	}
	return nil
}

// Spawn implements Service.
func (l *leash) Spawn(f func()) bool { f(); return true }

// nowhere is a renewal.Store of a watchdog that does not run.
type nowhere struct{}

func (nowhere) Node(int, int) string { return "" }

func (nowhere) Renew(context.Context, string, []renewal.Batch, [][]renewal.Outcome) {}

// connection implements Host and Silence.
type connection struct {
	carrier   *Carrier
	mu        sync.Mutex
	ended     []string // "key reason"
	pushed    []string
	attention Attention
	silent    time.Time
}

func (l *leash) connect() *connection {
	c := &connection{carrier: &Carrier{}}
	c.carrier.Init(l.Registry, 1, Client{Name: "127.0.0.1:5000"}, c, c)
	return c
}

// End implements Host.
func (c *connection) End(key []byte, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, string(key)+" "+reason)
}

// Watch implements Host.
func (c *connection) Watch(a Attention) { c.attention = a }

// Push implements Host.
func (c *connection) Push(frame []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(frame) > 0 {
		c.pushed = append(c.pushed, string(frame))
	}
	return true
}

// SilentSince implements Silence.
func (c *connection) SilentSince() time.Time { return c.silent }

// take makes a hold of c that is safe for a minute.
func (c *connection) take(t testing.TB, g Grant) *Hold {
	t.Helper()
	h := New(c.carrier, &g)
	if !c.carrier.Attach(t.Context(), []*Hold{h}, "", []time.Time{time.Now().Add(time.Minute)}) {
		t.Fatal("it is not held")
	}
	return h
}
