package renewal

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// owner is a Keeper that records what it is told.
type owner struct {
	mu   sync.Mutex
	told []string
	at   time.Time
}

func (o *owner) Lost(reason string) { o.note("lost: " + reason) }
func (o *owner) Ended(how Outcome)  { o.note(fmt.Sprint("ended: ", how)) }

func (o *owner) note(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told, o.at = append(o.told, text), time.Now()
}

func (o *owner) want(t *testing.T, want string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	got := ""
	if len(o.told) > 0 {
		got = o.told[0]
	}
	if got != want || len(o.told) > 1 {
		t.Fatalf("owner was told %q, want %q", o.told, want)
	}
}

// bench is a running Watchdog in a synctest bubble.
type bench struct {
	*Watchdog
	store *memory
	slept *atomic.Int64 // how far the wall clock is ahead
}

// inBubble runs a test in virtual time with a running Watchdog.
func inBubble(t *testing.T, test func(t *testing.T, w *bench)) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{expiry: make(map[*Hold]time.Time), how: make(map[*Hold]Outcome)}
		w := &bench{New(m), m, new(atomic.Int64)}
		w.clockAhead = func() time.Duration { return time.Duration(w.slept.Load()) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		test(t, w)
		cancel()
		<-done
	})
}

// grant adds a hold that was granted just now.
func (w *bench) grant(slot int, ttl time.Duration) (*Hold, *owner) {
	o := &owner{}
	h := &Hold{Keeper: o}
	w.store.mu.Lock()
	w.store.expiry[h] = time.Now().Add(ttl)
	w.store.mu.Unlock()
	w.Add(h, Plan{Slot: slot, TTL: ttl, Until: Until(time.Now(), ttl)})
	return h, o
}

func (w *bench) lease(slot int, ttl time.Duration) (*Hold, *owner) {
	h, o := w.grant(slot, ttl)
	w.Remove(h)
	w.Add(h, Plan{Slot: slot, TTL: ttl, Lease: true, Until: Until(time.Now(), ttl)})
	return h, o
}

// rest lets virtual time pass.
func rest(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

const ttl = 30 * time.Second
