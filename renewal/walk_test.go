package renewal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestR1NeverBelievedLongerThanKept: A random walk. The store has every hold whose end was not
// reported. While its node works, no hold is lost, and none is renewed too often.
func TestR1NeverBelievedLongerThanKept(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *bench) {
				k := newWalk(w, seed)
				for range 400 {
					k.step(t)
				}
				k.leave(t)
			})
		})
	}
}

// The nodes of a walk: one always works, one works slowly, and two are faulty.
const (
	wellNode = iota
	slowNode
	poorNodes
	walkNodes = 4
)

// walk is a random sequence of events for a Watchdog and its store.
type walk struct {
	*bench
	random        *rand.Rand
	faults        [walkNodes]fault // how a node answers; guarded by the store's mu
	erratic       [walkNodes]bool  // answers differently each time; guarded by the store's mu
	erraticRandom *rand.Rand       // guarded by the store's mu
	holds         []*walkKeeper    // the live holds
	suspends      int              // suspends so far
	checks        int              // how often someone checked all holds or one
}

// walkKeeper is a Keeper that expects to have its hold until it is told of the end.
type walkKeeper struct {
	walk            *walk
	hold            *Hold
	node            int
	ttl             time.Duration
	lease           bool
	granted         time.Time
	suspendsAtGrant int // suspends of the walk at the grant
	checked         int
	asked           int // renewals and checks so far

	mu   sync.Mutex
	told string
	left time.Duration // how long the store still had it then
}

func (b *walkKeeper) Lost(reason string) { b.note(reason) }
func (b *walkKeeper) Ended(how Outcome)  { b.note(fmt.Sprint("ended: ", how)) }

func (b *walkKeeper) note(text string) {
	left := b.walk.store.left(b.hold)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told, b.left = b.told+text, left
}

func newWalk(w *bench, seed uint64) *walk {
	k := &walk{bench: w, random: rand.New(rand.NewPCG(seed, 1)), erraticRandom: rand.New(rand.NewPCG(seed, 2))}
	w.store.nodes = walkNodes
	w.store.delay = map[string]time.Duration{fmt.Sprint("node", slowNode): 30 * time.Millisecond}
	w.store.set(func(node string) fault {
		for n := range walkNodes {
			if node == w.store.Node(0, n) && k.erratic[n] {
				return fault(k.erraticRandom.IntN(5))
			} else if node == w.store.Node(0, n) {
				return k.faults[n]
			}
		}
		return fine
	})
	return k
}

// step makes one random event happen and lets some time pass.
func (k *walk) step(t *testing.T) {
	switch n := k.random.IntN(100); {
	case n < 40:
		k.take()
	case n < 55:
		k.drop()
	case n < 70:
		k.changeNode()
	case n < 72:
		k.suspend(time.Duration(k.random.Int64N(int64(ttl))))
	case n < 78:
		k.check()
	}
	k.compare(t)
	for range k.random.IntN(12) {
		rest(time.Duration(k.random.IntN(40)) * time.Millisecond)
		k.compare(t)
	}
}

func (k *walk) take() {
	slot := k.random.IntN(slotCount)
	b := &walkKeeper{
		walk: k, node: slot % walkNodes, granted: time.Now(), suspendsAtGrant: k.suspends, checked: k.checks,
		lease: k.random.IntN(5) == 0,
		ttl:   []time.Duration{500 * time.Millisecond, 3 * time.Second, ttl}[k.random.IntN(3)],
	}
	b.hold = &Hold{Keeper: b}
	k.store.mu.Lock()
	k.store.expiry[b.hold] = b.granted.Add(b.ttl)
	k.store.mu.Unlock()
	k.Add(b.hold, Plan{Slot: slot, TTL: b.ttl, Lease: b.lease, Until: Until(b.granted, b.ttl)})
	k.holds = append(k.holds, b)
}

// some returns a random hold.
func (k *walk) some() *walkKeeper {
	if len(k.holds) == 0 {
		return nil
	}
	return k.holds[k.random.IntN(len(k.holds))]
}

// drop releases a hold.
func (k *walk) drop() {
	if b := k.some(); b != nil {
		k.Remove(b.hold)
		k.store.end(b.hold, Unknown)
		k.holds = slices.DeleteFunc(k.holds, func(other *walkKeeper) bool { return other == b })
	}
}

// changeNode makes a node work or fail.
func (k *walk) changeNode() {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	n := poorNodes + k.random.IntN(walkNodes-poorNodes)
	k.faults[n], k.erratic[n] = fault(k.random.IntN(5)), k.random.IntN(3) == 0
	k.store.delay[k.store.Node(0, n)] = time.Duration(k.random.IntN(5000)) * time.Millisecond
	if k.random.IntN(2) == 0 {
		k.faults[n], k.erratic[n] = fine, false
	}
}

// suspend acts like a suspended machine. Time passes for the store, and timers that were near fire
// at the wake-up.
func (k *walk) suspend(d time.Duration) {
	k.suspends++
	k.store.age(d)
	k.slept.Add(int64(d))
	k.wakeUp()
	synctest.Wait()
}

func (k *walk) check() {
	k.checks++
	if b := k.some(); b != nil && k.random.IntN(2) == 0 {
		k.Check(b.hold)
	} else {
		k.CheckAll()
	}
}

// compare compares what the keepers expect with the store.
func (k *walk) compare(t *testing.T) {
	t.Helper()
	k.count()
	believed := k.holds[:0]
	for _, b := range k.holds {
		b.mu.Lock()
		told, left := b.told, b.left
		b.mu.Unlock()
		well := b.node < poorNodes && b.suspendsAtGrant == k.suspends
		most := int(3*time.Since(b.granted)/b.ttl) + 2 + k.checks - b.checked
		switch {
		case told == "":
			believed = append(believed, b)
			until, left := time.Until(k.Until(b.hold)), k.store.left(b.hold)
			if (left <= 0 && !b.lease) || until > max(left, 0) {
				t.Fatalf("an owner relies for %v on a hold that the store keeps for %v", until, left)
			}
			if well && left < -2*time.Second {
				t.Fatalf("a lease is in the books that was over %v ago", -left)
			}
			most += int(max(-until, 0)/groupKey{ttl: b.ttl}.leaseEndInterval()) + 1
		case told == fmt.Sprint("ended: ", Expired):
			if left > 0 {
				t.Fatalf("a lease ended that the store had for %v more", left)
			}
			continue
		case left <= 0 && b.suspendsAtGrant == k.suspends:
			t.Fatalf("the end (%s) was reported %v after the store had dropped it", told, -left)
		case told != ReasonSilence && told != ReasonSuspended && told != ReasonGone:
			t.Fatalf("told %q", told)
		case well:
			t.Fatalf("lost (%s), though its node is well", told)
		}
		if well && b.asked > most {
			t.Fatalf("asked for %d times, want %d at most", b.asked, most)
		}
	}
	k.holds = believed
}

// count checks how often holds were renewed since the last call.
func (k *walk) count() {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	for _, c := range k.store.calls {
		for _, batch := range c.batches {
			for _, h := range batch.Holds {
				h.Keeper.(*walkKeeper).asked++
			}
		}
	}
	k.store.calls = nil
}

// leave ends the Watchdog during all of this. Its goroutines and its waiters must end too.
// Otherwise the bubble does not end.
func (k *walk) leave(t *testing.T) {
	k.store.set(always(hangs))
	k.CheckAll()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	go func() {
		defer cancel()
		k.RenewAll(ctx)
	}()
	synctest.Wait()
}
