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
	"leash/internal/redistest"
)

const (
	stormLength = 20 * time.Second // in which things are broken
	calmLength  = 8 * time.Second  // after each: then everything must go on as if nothing had been
)

// fault is one way to break something, and to mend it again before it returns.
type fault struct {
	name     string
	upstream bool // Redis may not answer Leash meanwhile
	forget   bool // Redis may forget locks by it
	strike   func(l *injector) error
}

// nemesis breaks things: the clients and the Leashes in one lane, Redis and the way to it in
// another.
type nemesis struct {
	bed     *testbed
	history *history
	weather *faultTimeline
	tally   *tally
	log     *slog.Logger
	faults  []fault // those to choose from
	grace   bool    // a failover makes nobody forget a lock
	seed    uint64

	mu     sync.Mutex
	struck map[string]int // how often, by name
	// how often one could not be struck: the machine is too busy, or Redis will not
	refused map[string]int
}

func newNemesis(b *testbed, h *history, opt options, log *slog.Logger) *nemesis {
	faults := slices.DeleteFunc(chosen(opt.faults, opt.forget), func(f fault) bool { return !b.clocks && strings.HasPrefix(f.name, "clock:") })
	return &nemesis{
		bed: b, history: h, weather: h.faults, log: log, faults: faults, grace: opt.grace, seed: opt.seed,
		struck: make(map[string]int), refused: make(map[string]int),
	}
}

// newInjector strikes one fault after the other.
type injector struct {
	*nemesis
	rnd   *rand.Rand
	deck  faultOrder
	spell *faultPeriod // of the fault that it strikes
}

func (n *nemesis) newInjector(number uint64) *injector {
	rnd := random(n.seed, 1<<32+number)
	return &injector{nemesis: n, rnd: rnd, deck: faultOrder{rnd: rnd}}
}

func allFaults() []fault {
	return slices.Concat(clientFaults, leashFaults, networkFaults, redisFaults, clockFaults)
}

// chosen are the faults whose names hold one of these words; all if there are none. Those by which
// Redis forgets are among them only when that is wanted.
func chosen(words []string, forget bool) (faults []fault) {
	for _, f := range allFaults() {
		named := slices.ContainsFunc(words, func(word string) bool { return strings.Contains(f.name, word) })
		if (named || len(words) == 0) && (forget || !f.forget) {
			faults = append(faults, f)
		}
	}
	return faults
}

// run breaks things until ctx ends: storms, with a calm after each. Everything is mended then.
func (n *nemesis) run(ctx context.Context) error {
	front, back := n.newInjector(0), n.newInjector(1)
	for _, f := range n.faults {
		if f.upstream {
			back.deck.all = append(back.deck.all, f)
		} else {
			front.deck.all = append(front.deck.all, f)
		}
	}
	for ctx.Err() == nil {
		storm, cancel := context.WithTimeout(ctx, stormLength)
		errs := make(chan error, 2)
		for _, l := range []*injector{front, back} {
			go func() { errs <- l.run(storm) }()
		}
		err := cmp.Or(<-errs, <-errs)
		cancel()
		if err != nil {
			return err
		}
		pause(ctx, n.calm())
	}
	return nil
}

// calm is for how long nothing is broken after a storm: for longer where nothing may be granted at
// first.
func (n *nemesis) calm() time.Duration {
	if n.grace {
		return calmLength + longestTTL
	}
	return calmLength
}

// run strikes until ctx ends.
func (l *injector) run(ctx context.Context) error {
	for ctx.Err() == nil && len(l.deck.all) > 0 {
		f := l.deck.next()
		l.log.Debug("fault", "name", f.name, "at", time.Duration(l.history.at(time.Now())))
		l.spell = l.weather.begin(f.name, f.upstream)
		err := f.strike(l)
		l.weather.ended(l.spell)
		switch {
		case err == nil:
			l.count(l.struck, f)
		case strings.HasPrefix(f.name, "leash"): // it must end in order, and start
			return fmt.Errorf("%s: %w", f.name, err)
		default:
			l.deck.refused(f)
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

// missedTries is how often a fault must have been refused before it is told that it never struck.
const missedTries = 1 + redeals

// missed are the faults that were tried and never struck: a run is worth less without them.
func (n *nemesis) missed() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, times := range n.refused {
		if times >= missedTries && n.struck[name] == 0 {
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

// longest is for how long anything stays broken at most.
const longest = 5 * time.Second

// longPause is for how long something stays broken: often for less than a lease, often for more.
func (l *injector) longPause() { time.Sleep(l.between(200*time.Millisecond, longest)) }

// shortPause is for how long something small stays broken.
func (l *injector) shortPause() { time.Sleep(l.between(200*time.Millisecond, 3*time.Second)) }

func pick[T any](rnd *rand.Rand, list []T) T { return list[rnd.IntN(len(list))] }

// front is the way to some Leash.
func (l *injector) front() *faultproxy.Proxy {
	i := l.rnd.IntN(len(l.bed.fronts))
	l.weather.setPlace(l.spell, leashName(i))
	return l.bed.fronts[i]
}

// leash is some Leash.
func (l *injector) leash() *leashtest.Leash {
	i := l.rnd.IntN(len(l.bed.leashes))
	l.weather.setPlace(l.spell, leashName(i))
	return l.bed.leashes[i]
}

// master is some master, and the way to it.
func (l *injector) master() *redistest.Node {
	n := pick(l.rnd, l.bed.cluster.Masters())
	l.weather.setPlace(l.spell, n.Announced())
	return n
}

// slot is that of some lock, counter or latch.
func (l *injector) slot() int {
	key := pick(l.rnd, append(l.bed.realKeys(), l.bed.counters.keys()...))
	l.weather.setPlace(l.spell, "the slot of "+key)
	return redistest.Slot(key)
}

func (n *nemesis) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for _, f := range n.faults {
		if struck, refused := n.struck[f.name], n.refused[f.name]; struck+refused > 0 {
			fmt.Fprintf(&b, "  %5d %s%s\n", struck, f.name, only(refused > 0, fmt.Sprintf(" (refused %d times)", refused)))
		}
	}
	return b.String()
}
