package renewal

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/guard"
	"leash/internal/idtable"
)

const (
	minTTL   = 3 * time.Millisecond
	maxBatch = 256 // holds in one request

	// A round is one call. These are how much work a round has, about: one for each hold and
	// batchWork for each request.
	maxRound  = 2048 // for a node that lags far behind
	lagRound  = 64   // for a node that just begins to lag
	calmRound = 32   // for a node that keeps up; other commands wait for the node, too

	// stepWork is how much work a step looks for, for all nodes together. A node gets it in rounds.
	// With 100,000 holds on three nodes, steps of one round cost twice the CPU and steps of four
	// rounds 1.3 times as much, nearly all of it for falling asleep and waking up.
	stepWork = 16 * calmRound
	// aheadPart is the part of the time between two renewals by which a step looks ahead at most.
	aheadPart = 32

	// These are how many holds one request to a node has that keeps up. calmBatch is enough for all
	// holds of a slot when a million are spread over all slots. promptBatch is for a node that
	// keeps up so well that twice as many calls do no harm: 31 holds took Redis 0.2 ms, 61 took
	// 0.35 ms.
	calmBatch   = 80
	promptBatch = 32

	// batchWork is the work of a request beside that of its holds. A request of one hold took Redis
	// 12 µs, one of 60 holds about 6 µs for each.
	batchWork = 1

	clockInterval    = 500 * time.Millisecond // how often the clocks are compared
	leaseEndInterval = 500 * time.Millisecond // how often a lease is checked that should be over

	// Renewals may be late by this part of the time between two of them, see Stats.Excess.
	harmlessPart = 16
)

// Watchdog renews holds. Make one with New, and run it with Run.
type Watchdog struct {
	// Immutable after New.
	store Store
	start time.Time // moments count from here
	kick  chan struct{}
	// clockAhead is by how much the wall clock has run ahead of the monotonic clock since the
	// start. Tests replace it.
	clockAhead func() time.Duration

	due []*group // of Run's goroutine: the slice that the last step used

	wg sync.WaitGroup // goroutines with rounds; Run waits for them

	// mu guards the fields below, the groups and the holds in them. It is never held during a call
	// of the Store or of a Keeper.
	mu sync.Mutex
	// Holds and groups refer to each other by numbers. With a million holds, pointers would cost
	// the garbage collector two million more to follow.
	holdTable  idtable.Table[Hold]
	groupTable idtable.Table[group]
	groups     map[groupKey]*group
	queue      groupHeap
	nodes      map[nodeKey]*node
	freeRounds []*round      // for reuse
	suspended  time.Duration // the last result of clockAhead
	margins    margins

	// Log takes panics. If nil, slog.Default does. Do not change it after Run.
	Log *slog.Logger

	// Stats can be read at any time.
	Stats Stats
}

// Stats counts what the watchdog did.
type Stats struct {
	Renewals atomic.Int64 // holds renewed, and leases found to be there
	Unknowns atomic.Int64 // holds for which a round brought no answer

	// Lag is for how many ns the oldest renewal has been due, at nodes that answer. Excess is by
	// how many ns that is too much: more than 1/48 of the TTL. Then there are more holds than can
	// be renewed, and new ones should wait.
	Lag, Excess atomic.Int64
}

// New makes a Watchdog whose holds are in store. It starts nothing.
func New(store Store) *Watchdog {
	start := time.Now()
	return &Watchdog{
		store: store, start: start, kick: make(chan struct{}, 1),
		clockAhead: func() time.Duration { return clockAheadSince(start) },
		groups:     make(map[groupKey]*group), nodes: make(map[nodeKey]*node),
	}
}

// Add makes the Watchdog renew h by the plan p. If h was added before, p replaces its plan, but its
// Until never becomes earlier.
func (w *Watchdog) Add(h *Hold, p Plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := w.moment(p.Until)
	if g := w.groupOf(h); g != nil {
		until = max(until, h.until)
		g.remove(h)
	}
	h.until = until
	key := groupKey{db: p.DB, kind: p.Kind, slot: p.Slot, ttl: max(p.TTL, minTTL), lease: p.Lease}
	w.join(h, w.now(), key, p.Every)
}

// join adds h to the group of that key and interval. known is when the last answer about h was
// asked for. w.mu is held.
func (w *Watchdog) join(h *Hold, known moment, key groupKey, every time.Duration) {
	key.every = key.ttl / 3
	if every > 0 {
		key.every = max(min(every, key.every), minTTL/3)
	}
	g := w.groups[key]
	if g == nil {
		g = &group{groupKey: key, holdTable: &w.holdTable, index: -1}
		g.number = w.groupTable.Add(g)
		w.groups[key] = g
	}
	if len(g.holds) == 0 && !g.busy {
		g.schedule(w.now())
	}
	g.add(h, known)
	w.updateQueue(g)
	if g.index == 0 {
		w.wakeUp()
	}
}

// SetPace changes Plan.Every of h. It does nothing for a hold that was not added.
func (w *Watchdog) SetPace(h *Hold, every time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.groupOf(h)
	if g == nil || g.every == every {
		return
	}
	known := g.answeredAt[h]
	g.remove(h)
	w.join(h, known, g.groupKey, every)
}

// Remove ends the renewal of h and returns its Until; zero if h was not added. A renewal may still
// be on its way, so the store must check whose hold it renews.
func (w *Watchdog) Remove(h *Hold) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.groupOf(h)
	if g == nil {
		return time.Time{}
	}
	g.remove(h)
	return w.start.Add(h.until)
}

// Until is the time up to which h is known to be safe; zero if h was not added.
func (w *Watchdog) Until(h *Hold) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.group == 0 {
		return time.Time{}
	}
	return w.start.Add(h.until - max(w.clockAhead()-w.suspended, 0))
}

// Run renews the holds until ctx ends. It returns when every goroutine that it started has ended.
func (w *Watchdog) Run(ctx context.Context) error {
	defer w.releaseWaiters()
	defer w.wg.Wait()
	guard.Repeat(ctx, w.Log, "watchdog", func() { w.watch(ctx) })
	return nil
}

func (w *Watchdog) watch(ctx context.Context) {
	timer := time.NewTimer(clockInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.kick:
		case <-timer.C:
		}
		w.compareClocks()
		timer.Reset(w.step(ctx))
	}
}

// releaseWaiters ends the waits for rounds that will not come any more.
func (w *Watchdog) releaseWaiters() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		g.callWaiting()
		g.callWaiting()
	}
}

// step does what is due and returns the time until the next step.
func (w *Watchdog) step(ctx context.Context) time.Duration {
	due, tell, pause := w.plan(w.now())
	for _, end := range tell {
		_ = guard.Do(w.Log, "end of a hold", end)
	}
	w.send(ctx, due)
	clear(due)
	w.due = due
	return pause
}

// groupOf is the group of h; nil if h was not added. w.mu is held.
func (w *Watchdog) groupOf(h *Hold) *group {
	if h.group == 0 {
		return nil
	}
	return w.groupTable.At(h.group)
}

func (w *Watchdog) wakeUp() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}
