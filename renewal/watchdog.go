package renewal

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	minTTL    = 3 * time.Millisecond
	maxBatch  = 256                    // holds in one request
	maxRound  = 8192                   // holds in one call of a node, about
	lookEvery = 500 * time.Millisecond // how often the clocks are compared
)

// Watchdog keeps holds. Make one with New, and let Run run.
type Watchdog struct {
	// Immutable after New.
	store Store
	start time.Time // from where phases count
	kick  chan struct{}
	// drift is by how much the wall clock ran ahead of the monotonic one since the last call. Tests replace it.
	drift func() time.Duration

	wg sync.WaitGroup // node rounds; Run waits for them

	// mu guards the fields below, the groups and the holds in them. Never held across the store or a Keeper.
	mu     sync.Mutex
	groups map[groupKey]*group
	queue  groupHeap
	nodes  map[nodeKey]*node

	// Stats can be read at any time.
	Stats Stats
}

// Stats counts what the watchdog did.
type Stats struct {
	Renewals atomic.Int64 // holds renewed, or looked at and found ours
	Unknowns atomic.Int64 // holds for which a round brought no answer
}

// New makes a Watchdog that keeps its holds in store. It starts nothing.
func New(store Store) *Watchdog {
	return &Watchdog{
		store: store, start: time.Now(), kick: make(chan struct{}, 1), drift: newDrift(),
		groups: make(map[groupKey]*group), nodes: make(map[nodeKey]*node),
	}
}

// newDrift compares the clocks. A wall clock set back is not a suspend.
func newDrift() func() time.Duration {
	last := time.Now()
	return func() time.Duration {
		now := time.Now()
		drift := now.Round(0).Sub(last.Round(0)) - now.Sub(last)
		last = now
		return max(drift, 0)
	}
}

// Add begins to keep h. For a hold that is kept already, the plan is replaced, but its Until only grows.
func (w *Watchdog) Add(h *Hold, p Plan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.group != nil {
		if h.until.After(p.Until) {
			p.Until = h.until
		}
		h.group.remove(h)
	}
	h.until, h.lease, h.known = p.Until, p.Lease, time.Now()
	key := groupKey{db: p.DB, kind: p.Kind, slot: p.Slot, ttl: max(p.TTL, minTTL), lease: p.Lease}
	w.join(h, key, p.Every)
}

// join puts h into the group of that key that is asked for so often. w.mu is held.
func (w *Watchdog) join(h *Hold, key groupKey, every time.Duration) {
	key.every = key.ttl / 3
	if every > 0 {
		key.every = max(min(every, key.every), minTTL/3)
	}
	g := w.groups[key]
	if g == nil {
		g = &group{groupKey: key, index: -1}
		w.groups[key] = g
	}
	if len(g.holds) == 0 && !g.busy {
		g.due = key.next(w.start, time.Now())
	}
	g.add(h)
	w.place(g)
	if g.index == 0 {
		w.nudge()
	}
}

// Pace asks for h as often as Plan.Every says. It does nothing for a hold that is not kept.
func (w *Watchdog) Pace(h *Hold, every time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := h.group
	if g == nil || g.every == every {
		return
	}
	g.remove(h)
	w.join(h, g.groupKey, every)
}

// Correct sets until when a lease is safe, which may be earlier than planned: the store was asked at asked, and says so. What was planned
// or found out since counts more. It does nothing for a hold that is renewed, or not kept.
func (w *Watchdog) Correct(h *Hold, until, asked time.Time) {
	w.mu.Lock()
	g := h.group
	if g == nil || !h.lease || asked.Before(h.known) {
		w.mu.Unlock()
		return
	}
	h.until, h.known = until, asked
	if until.Before(g.deadline) {
		g.deadline = until
		w.place(g)
		w.nudge()
	}
	w.mu.Unlock()
}

// Remove ends the keeping of h and returns its Until; zero when it was not kept. A renewal on its way does no harm if the
// store looks whose hold it renews.
func (w *Watchdog) Remove(h *Hold) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.group == nil {
		return time.Time{}
	}
	h.group.remove(h)
	return h.until
}

// Until is how long h is safe as far as is known; zero when it is not kept.
func (w *Watchdog) Until(h *Hold) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.group == nil {
		return time.Time{}
	}
	return h.until
}

// Check asks the store soon whether h is still there.
func (w *Watchdog) Check(h *Hold) {
	w.mu.Lock()
	if g := h.group; g != nil {
		w.hurry(g)
	}
	w.mu.Unlock()
	w.nudge()
}

// CheckAll asks the store soon whether every hold is still there. It does not wait.
func (w *Watchdog) CheckAll() {
	w.mu.Lock()
	for _, g := range w.groups {
		w.hurry(g)
	}
	w.mu.Unlock()
	w.nudge()
}

// RenewAll renews every hold now and returns when the store has been asked for each, or ctx has ended. Run must be running.
func (w *Watchdog) RenewAll(ctx context.Context) {
	var asked sync.WaitGroup
	w.mu.Lock()
	for _, g := range w.groups {
		asked.Add(1)
		if g.busy {
			g.later = append(g.later, asked.Done)
		} else {
			g.waiting = append(g.waiting, asked.Done)
		}
		w.hurry(g)
	}
	w.mu.Unlock()
	w.nudge()
	done := make(chan struct{})
	go closeAfter(&asked, done) // ends at the latest when the last round under way does
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func closeAfter(wg *sync.WaitGroup, done chan struct{}) {
	wg.Wait()
	close(done)
}

// Run keeps the holds until ctx ends, and returns when every goroutine it started has.
func (w *Watchdog) Run(ctx context.Context) error {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	defer w.abandon()
	defer w.wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.kick:
		case <-timer.C:
		}
		w.compareClocks()
		timer.Reset(w.step(ctx))
	}
}

// abandon lets those go who wait for a round that will not come.
func (w *Watchdog) abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		g.finish()
		g.finish()
	}
}

// step does what is due and returns for how long to wait.
func (w *Watchdog) step(ctx context.Context) time.Duration {
	now := time.Now()
	var due []*group
	var over []*Hold
	w.mu.Lock()
	for len(w.queue) > 0 && !w.queue[0].wake().After(now) {
		g := w.queue[0]
		for _, h := range g.expired(now) {
			g.remove(h)
			over = append(over, h)
		}
		if !g.busy && !g.due.After(now) {
			g.busy = true
			due = append(due, g)
		}
		w.place(g)
	}
	pause := lookEvery
	if len(w.queue) > 0 {
		pause = min(pause, max(w.queue[0].wake().Sub(now), 0))
	}
	w.mu.Unlock()
	for _, h := range over {
		h.over()
	}
	for _, g := range due {
		w.enqueue(ctx, w.store.Node(g.db, g.slot), g)
	}
	return pause
}

// over tells of a hold whose Until has come.
func (h *Hold) over() {
	if h.lease {
		h.Keeper.Ended(Expired)
		return
	}
	h.Keeper.Lost(ReasonSilence)
}

// compareClocks finds out about a suspend: the time slept through has passed for the store (R31).
func (w *Watchdog) compareClocks() {
	slept := w.drift()
	if slept < 10*time.Millisecond {
		return
	}
	var lost []*Hold
	w.mu.Lock()
	for _, g := range w.groups {
		for _, h := range g.holds {
			h.until = h.until.Add(-slept)
		}
		g.deadline = g.deadline.Add(-slept)
		if slept > g.ttl/3 {
			lost = append(lost, g.holds...)
			for _, h := range g.holds {
				h.group = nil
			}
			g.holds = nil
		}
		w.place(g)
	}
	w.mu.Unlock()
	for _, h := range lost {
		h.Keeper.Lost(ReasonSuspended)
	}
}

// hurry makes g due now. w.mu is held.
func (w *Watchdog) hurry(g *group) {
	if g.busy {
		g.again = true
		return
	}
	g.due = time.Now()
	w.place(g)
}

// place puts g where it belongs in the heap, or drops it when there is nothing left to do for it. w.mu is held.
func (w *Watchdog) place(g *group) {
	idle := len(g.holds) == 0 && !g.busy && len(g.waiting) == 0
	switch {
	case idle && g.index >= 0:
		heap.Remove(&w.queue, g.index)
	case idle:
	case g.index >= 0:
		heap.Fix(&w.queue, g.index)
	default:
		heap.Push(&w.queue, g)
	}
	if idle {
		delete(w.groups, g.groupKey)
	}
}

func (w *Watchdog) nudge() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}
