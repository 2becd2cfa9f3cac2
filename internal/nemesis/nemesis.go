package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/leashtest"
	"leash/internal/nemesis/history"
	"leash/internal/redistest"
)

const (
	faultyLength    = 20 * time.Second // a time with faults
	faultlessLength = 8 * time.Second  // the time without faults after it: everything must work again
)

// fault is one kind of fault. cause starts it, and ends it before it returns.
type fault struct {
	name     string
	upstream bool // Redis may not answer Leash during the fault
	forget   bool // Redis may lose locks by the fault
	cause    func(l *injector) error
}

// nemesis causes the faults. One injector causes those of the clients and of the Leashes. Another
// causes those of Redis and of the network to Redis.
type nemesis struct {
	bed      *testbed
	history  *history.History
	timeline *history.FaultTimeline
	tally    *history.Tally
	log      *slog.Logger
	faults   []fault // the faults that this run may cause
	grace    bool    // Leash has a grace period, so that no lock is lost by a failover
	seed     uint64

	mu       sync.Mutex
	happened map[string]int // how often each fault happened, by name
	// how often each fault could not be caused, by name: the machine was too busy, or Redis refused
	refused map[string]int
}

func newNemesis(b *testbed, h *history.History, opt options, log *slog.Logger) *nemesis {
	faults := slices.DeleteFunc(chosen(opt.faults, opt.forget), func(f fault) bool { return !b.clocks && strings.HasPrefix(f.name, "clock:") })
	return &nemesis{
		bed: b, history: h, timeline: h.Faults, log: log, faults: faults, grace: opt.grace, seed: opt.seed,
		happened: make(map[string]int), refused: make(map[string]int),
	}
}

// injector causes one fault after another.
type injector struct {
	*nemesis
	rnd    *rand.Rand
	order  faultOrder
	period *history.FaultPeriod // the time of the current fault
}

func (n *nemesis) newInjector(number uint64) *injector {
	rnd := random(n.seed, 1<<32+number)
	return &injector{nemesis: n, rnd: rnd, order: faultOrder{rnd: rnd}}
}

func allFaults() []fault {
	return slices.Concat(clientFaults, leashFaults, networkFaults, redisFaults, clockFaults)
}

// chosen returns the faults whose names contain one of the words. Without words it returns all
// faults. It returns the faults by which Redis loses locks only if forget is set.
func chosen(words []string, forget bool) (faults []fault) {
	for _, f := range allFaults() {
		named := slices.ContainsFunc(words, func(word string) bool { return strings.Contains(f.name, word) })
		if (named || len(words) == 0) && (forget || !f.forget) {
			faults = append(faults, f)
		}
	}
	return faults
}

// run causes faults until ctx ends. A time with faults and a time without faults take turns. All
// faults have ended when it returns.
func (n *nemesis) run(ctx context.Context) error {
	front, back := n.newInjector(0), n.newInjector(1)
	for _, f := range n.faults {
		if f.upstream {
			back.order.all = append(back.order.all, f)
		} else {
			front.order.all = append(front.order.all, f)
		}
	}
	for ctx.Err() == nil {
		faulty, cancel := context.WithTimeout(ctx, faultyLength)
		errs := make(chan error, 2)
		for _, l := range []*injector{front, back} {
			go func() { errs <- l.run(faulty) }()
		}
		err := cmp.Or(<-errs, <-errs)
		cancel()
		if err != nil {
			return err
		}
		pause(ctx, n.faultlessTime())
	}
	return nil
}

// faultlessTime returns how long no fault happens after a time with faults. It is longer with a
// grace period, since Leash may grant nothing in that period.
func (n *nemesis) faultlessTime() time.Duration {
	if n.grace {
		return faultlessLength + history.LongestTTL
	}
	return faultlessLength
}

// run causes faults until ctx ends.
func (l *injector) run(ctx context.Context) error {
	for ctx.Err() == nil && len(l.order.all) > 0 {
		f := l.order.next()
		l.log.Debug("fault", "name", f.name, "at", time.Duration(l.history.At(time.Now())))
		l.period = l.timeline.Begin(f.name, f.upstream)
		err := f.cause(l)
		l.timeline.Ended(l.period)
		switch {
		case err == nil:
			l.count(l.happened, f)
		case strings.HasPrefix(f.name, "leash"): // Leash must stop properly, and start again
			return fmt.Errorf("%s: %w", f.name, err)
		default:
			l.order.refused(f)
			l.count(l.refused, f)
			l.log.Debug("refused", "fault", f.name, "err", err)
		}
		pause(ctx, l.between(200*time.Millisecond, 1500*time.Millisecond))
	}
	return nil
}

func (n *nemesis) count(how map[string]int, f fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	how[f.name]++
}

// missedTries is how often a fault must be refused before it is reported as missed.
const missedTries = 1 + retriesPerRound

// missed returns the faults that were tried and never happened. A run without them tests less.
func (n *nemesis) missed() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, times := range n.refused {
		if times >= missedTries && n.happened[name] == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (l *injector) between(least, most time.Duration) time.Duration {
	return least + time.Duration(l.rnd.Int64N(int64(most-least)))
}

// longest is the longest time that any fault lasts.
const longest = 5 * time.Second

// longPause waits for the length of a fault. It is often shorter than a lease, and often longer.
func (l *injector) longPause() { time.Sleep(l.between(200*time.Millisecond, longest)) }

// shortPause waits for the length of a small fault.
func (l *injector) shortPause() { time.Sleep(l.between(200*time.Millisecond, 3*time.Second)) }

func pick[T any](rnd *rand.Rand, list []T) T { return list[rnd.IntN(len(list))] }

// front returns the proxy before a random Leash.
func (l *injector) front() *faultproxy.Proxy {
	i := l.rnd.IntN(len(l.bed.fronts))
	l.timeline.SetPlace(l.period, history.LeashName(i))
	return l.bed.fronts[i]
}

// leash returns a random Leash.
func (l *injector) leash() *leashtest.Leash {
	i := l.rnd.IntN(len(l.bed.leashes))
	l.timeline.SetPlace(l.period, history.LeashName(i))
	return l.bed.leashes[i]
}

// master returns a random master, with its proxy.
func (l *injector) master() *redistest.Node {
	n := pick(l.rnd, l.bed.cluster.Masters())
	l.timeline.SetPlace(l.period, n.Announced())
	return n
}

// slot returns the hash slot of a random lock, counter or latch.
func (l *injector) slot() int {
	key := pick(l.rnd, append(l.bed.realKeys(), l.bed.counters.keys()...))
	l.timeline.SetPlace(l.period, "the slot of "+key)
	return redistest.Slot(key)
}

func (n *nemesis) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for _, f := range n.faults {
		if happened, refused := n.happened[f.name], n.refused[f.name]; happened+refused > 0 {
			fmt.Fprintf(&b, "  %5d %s%s\n", happened, f.name, only(refused > 0, fmt.Sprintf(" (refused %d times)", refused)))
		}
	}
	return b.String()
}

// retriesPerRound is how often a fault that could not be caused is tried again in a round.
const retriesPerRound = 2

// faultOrder returns faults in rounds. In each round every fault comes once, in a random order. If
// each fault were chosen independently, a run of three minutes would miss some faults.
type faultOrder struct {
	rnd     *rand.Rand
	all     []fault
	left    []fault        // the faults that this round has not had yet
	retries map[string]int // the retries of this round, by fault
}

// next returns the next fault. There must be at least one fault.
func (d *faultOrder) next() fault {
	if len(d.left) == 0 {
		d.left, d.retries = slices.Clone(d.all), make(map[string]int)
		d.rnd.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	f := d.left[0]
	d.left = d.left[1:]
	return f
}

// refused notes that f, the fault that next returned last, could not be caused. It comes again at
// the end of this round.
func (d *faultOrder) refused(f fault) {
	if d.retries[f.name] < retriesPerRound {
		d.retries[f.name]++
		d.left = append(d.left, f)
	}
}
