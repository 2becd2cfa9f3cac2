package renewal

import (
	"container/heap"
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
	// work in one round of a node that lags far behind, about, which is one call
	maxRound = 2048
	// work in one round of a node that hardly lags, which is one call
	lagRound = 64
	// work in one round of a node that keeps up, about, which is one call: others wait for the
	// store, too
	calmRound = 32
	// holds in one request to it, and in one call: all of a slot's when a million are spread over
	// all slots
	calmBatch = 80
	// while it keeps up so well that twice as many calls do no harm: 31 holds kept Redis for 0.2
	// ms, 61 for 0.35
	promptBatch = 32
	// beside a hold's, which is 1: a request of one hold took Redis 12 µs, and one of 60 about 6 µs
	// a hold
	batchWork     = 1
	clockInterval = 500 * time.Millisecond // how often the clocks are compared
	// how often a lease is looked at that is over as far as is known, at least
	leaseEndInterval = 500 * time.Millisecond
	// such a part of the usual time between two renewals they may come late, see Stats.Excess
	harmlessPart = 16
)

// Watchdog keeps holds. Make one with New, and let Run run.
type Watchdog struct {
	// Immutable after New.
	store Store
	start time.Time // from where moments count
	kick  chan struct{}
	// clockAhead is by how much the wall clock has run ahead of the monotonic one since the start. Tests
	// replace it.
	clockAhead func() time.Duration

	due []*group // Run's own: what the last step found due, for reuse

	wg sync.WaitGroup // node rounds; Run waits for them

	// mu guards the fields below, the groups and the holds in them. Never held across the store or
	// a Keeper.
	mu sync.Mutex
	// the holds that are kept, and the groups, so that they know of each other by numbers:
	holdTable idtable.Table[Hold]
	// two million pointers more would be the garbage collector's to follow
	groupTable idtable.Table[group]
	groups     map[groupKey]*group
	queue      groupHeap
	nodes      map[nodeKey]*node
	freeRounds []*round      // for reuse: no more than there were under way at once
	suspended  time.Duration // what ahead said last

	// Log is told of panics; if nil, slog.Default is. Not changed after Run.
	Log *slog.Logger

	// Stats can be read at any time.
	Stats Stats
}

// Stats counts what the watchdog did.
type Stats struct {
	Renewals atomic.Int64 // holds renewed, or looked at and found ours
	Unknowns atomic.Int64 // holds for which a round brought no answer

	// Lag is for how many ns renewals have been due that a node has not been asked for, though it
	// answers. Excess is by how many ns that is more than does no harm, a sixteenth of a third of
	// the TTL: there are more holds than can be renewed, and nobody should take others.
	Lag, Excess atomic.Int64
}

// New makes a Watchdog that keeps its holds in store. It starts nothing.
func New(store Store) *Watchdog {
	start := time.Now()
	return &Watchdog{
		store: store, start: start, kick: make(chan struct{}, 1), clockAhead: func() time.Duration { return clockAheadSince(start) },
		groups: make(map[groupKey]*group), nodes: make(map[nodeKey]*node),
	}
}

// Add begins to keep h. For a hold that is kept already, the plan is replaced, but its Until only
// grows.
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

// join puts h, with what is known of it, into the group of that key that is asked for so often.
// w.mu is held.
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

// SetPace asks for h as often as Plan.Every says. It does nothing for a hold that is not kept.
func (w *Watchdog) SetPace(h *Hold, every time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.groupOf(h)
	if g == nil || g.every == every {
		return
	}
	known := g.answeredAt[h]
	g.endPendingCheck(h)
	g.remove(h)
	w.join(h, known, g.groupKey, every)
}

// Remove ends the keeping of h and returns its Until; zero when it was not kept. A renewal on its
// way does no harm if the store looks whose hold it renews.
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

// Until is how long h is safe as far as is known; zero when it is not kept.
func (w *Watchdog) Until(h *Hold) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.group == 0 {
		return time.Time{}
	}
	return w.start.Add(h.until - max(w.clockAhead()-w.suspended, 0))
}

// Run keeps the holds until ctx ends, and returns when every goroutine it started has.
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

// releaseWaiters lets those go who wait for a round that will not come.
func (w *Watchdog) releaseWaiters() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		g.callWaiting()
		g.callWaiting()
	}
}

// step does what is due and returns for how long to wait.
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

// plan returns what is to be sent, whom to tell of ends, and for how long to wait.
func (w *Watchdog) plan(now moment) (due []*group, tell []func(), pause time.Duration) {
	due = w.due[:0]
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 && w.queue[0].wake <= now {
		g := w.queue[0].group
		if g.deadline <= now {
			tell = append(tell, w.expire(g, now)...)
		}
		if !g.busy && g.due <= now {
			g.busy = true
			due = append(due, g)
		}
		w.updateQueue(g)
	}
	due = w.addUpcoming(due, now)
	pause = clockInterval
	if len(w.queue) > 0 {
		pause = min(pause, max(w.queue[0].wake-now, 0))
	}
	w.measureLag(now)
	return due, tell, pause
}

// measureLag writes down by how much the nodes lag behind. w.mu is held.
func (w *Watchdog) measureLag(now moment) {
	var most, excess time.Duration
	for _, n := range w.nodes {
		if lag := n.lag(now); lag > 0 {
			most, excess = max(most, lag), max(excess, lag-n.queue[0].ttl/3/harmlessPart)
		}
	}
	w.Stats.Lag.Store(int64(most))
	w.Stats.Excess.Store(int64(excess))
}

// addUpcoming adds to what is due in its rhythm, when that is little, what will be soon: a call of a
// node costs more than a renewal in it. Both keep their rhythm. w.mu is held.
func (w *Watchdog) addUpcoming(due []*group, now moment) []*group {
	if len(due) == 0 || !due[0].regular {
		return due
	}
	work := 0
	for _, g := range due {
		work += g.work()
	}
	for len(w.queue) > 0 {
		g := w.queue[0].group
		work += g.work()
		if work > calmRound || g.busy || !g.regular || g.deadline < g.due || g.due > now+g.every/32 {
			break
		}
		g.busy = true
		due = append(due, g)
		w.updateQueue(g)
	}
	return due
}

// updateQueue puts g where it belongs in the heap, or drops it when there is nothing left to do for it.
// w.mu is held.
func (w *Watchdog) updateQueue(g *group) {
	idle := len(g.holds) == 0 && !g.busy && len(g.onRoundEnd) == 0
	switch {
	case idle && g.index >= 0:
		heap.Remove(&w.queue, g.index)
	case idle:
	case g.index >= 0:
		w.queue[g.index].wake = g.wake()
		heap.Fix(&w.queue, g.index)
	default:
		heap.Push(&w.queue, g)
	}
	if idle && w.groups[g.groupKey] == g {
		delete(w.groups, g.groupKey)
		w.groupTable.Remove(g.number)
	}
}

// groupOf is the group that h is in, nil when it is not kept. w.mu is held.
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
