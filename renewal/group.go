package renewal

import (
	"iter"
	"slices"
	"time"

	"leash/internal/idtable"
)

type groupKey struct {
	db    int
	kind  int
	slot  int
	ttl   time.Duration
	every time.Duration // at most a third of ttl
	lease bool
}

// group is the holds of one slot of a database with one TTL, asked for equally often. All fields
// are guarded by the Watchdog's mu.
type group struct {
	groupKey
	number    uint32               // in the Watchdog's lists
	holdTable *idtable.Table[Hold] // the Watchdog's
	holds     []uint32             // by their entries in roll
	// of leases: what was found out before is older than until. Others do without, there may be a
	// million of them
	answeredAt map[*Hold]moment
	// of leases: the last answer was too slow to say whether until is true still, or this is
	pendingChecks map[*Hold]pendingCheck
	due           moment // when to ask the store next; while busy, when it was to be asked
	// the earliest until of its holds, or an earlier moment: looking once too often does no harm
	deadline       moment
	regular        bool     // due is a time of its rhythm, not one at which to try again
	busy           bool     // on its way to the store, or in a node's line
	checkAgain     bool     // asked for while busy
	onRoundEnd     []func() // to be called after the round that is under way
	onNextRoundEnd []func() // to be called after the round that follows it
	index          int      // in the heap, -1 outside
}

const (
	slotCount = 16384
	// neighbouring slots whose turns come one after the other: they are of one node as a rule, so
	// that a call has many of them
	run  = 32
	runs = slotCount / run
	// the golden section of runs, and odd: each has a turn, and those of one node are spread evenly
	stride = 317
)

// nextDue is the group's first regular due time after now: its phase within the period comes from its
// slot.
func (k groupKey) nextDue(now moment) moment {
	turn := k.slot/run*stride%runs*run + k.slot%run
	phase := k.every / slotCount * moment(turn)
	at := now - (now-phase)%k.every
	for at <= now {
		at += k.every
	}
	return at
}

// schedule sets when g is due next in its rhythm.
func (g *group) schedule(now moment) { g.due, g.regular = g.nextDue(now), true }

// add takes h in, of which nothing that was found out before known is news.
func (g *group) add(h *Hold, known moment) {
	h.group, h.entry, h.at = g.number, g.holdTable.Add(h), int32(len(g.holds))
	if len(g.holds) == cap(g.holds) { // an eighth to spare: append would have up to as much again
		g.holds = append(slices.Grow([]uint32(nil), len(g.holds)+len(g.holds)/8+1), g.holds...)
	}
	g.holds = append(g.holds, h.entry)
	if g.lease {
		g.noteAnswer(h, known)
	}
	if h.until < g.deadline || len(g.holds) == 1 {
		g.deadline = h.until
	}
}

func (g *group) remove(h *Hold) {
	delete(g.answeredAt, h)
	delete(g.pendingChecks, h)
	last := len(g.holds) - 1
	g.holds[h.at] = g.holds[last]
	g.holdTable.At(g.holds[last]).at = h.at
	g.holds = g.holds[:last]
	g.holdTable.Remove(h.entry)
	h.group = 0
}

// all are the holds of g. None may be taken out meanwhile.
func (g *group) all() iter.Seq[*Hold] {
	return func(yield func(*Hold) bool) {
		for _, n := range g.holds {
			if !yield(g.holdTable.At(n)) {
				return
			}
		}
	}
}

// work is how much the store has to do for the group, in holds.
func (g *group) work() int { return len(g.holds) + (len(g.holds)+calmBatch-1)/calmBatch*batchWork }

// wake is when the group next needs a look.
func (g *group) wake() moment {
	if g.busy {
		return g.deadline
	}
	return min(g.due, g.deadline)
}

// expire deals with the holds whose time is over, and returns how to tell of each that is lost. It
// sets the deadline anew. A lease that is over as far as is known may have been made to last since,
// and lasts longer in the store at any rate: from then on the store is asked often, and says when
// it is over. w.mu is held.
func (w *Watchdog) expire(g *group, now moment) (tell []func()) {
	g.deadline = g.endOverdueChecks(now)
	often := g.leaseEndInterval()
	for i := 0; i < len(g.holds); {
		h := g.holdTable.At(g.holds[i])
		switch {
		case now < h.until:
			g.deadline = min(g.deadline, h.until)
			i++
		case !g.lease:
			g.remove(h) // another one is in its place now
			tell = append(tell, func() { h.Keeper.Lost(ReasonSilence) })
		case g.every > often:
			known := g.answeredAt[h]
			g.remove(h)
			w.join(h, known, g.groupKey, often)
		default:
			i++
		}
	}
	return tell
}

// retryDelay is for how long the group can wait with what the store did not say: leases that are over
// need no haste.
func (k groupKey) retryDelay() time.Duration {
	if k.lease && k.every <= k.leaseEndInterval() {
		return maxBackoff
	}
	return k.ttl / 12
}

// groupHeap orders groups by wake; container/heap's Interface. Each place has its group's wake at
// hand: the groups lie all over the memory.
type groupHeap []heapEntry

type heapEntry struct {
	wake  moment // the group's when it was put here
	group *group
}

func (q groupHeap) Len() int           { return len(q) }
func (q groupHeap) Less(i, j int) bool { return q[i].wake < q[j].wake }
func (q groupHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].group.index, q[j].group.index = i, j
}

func (q *groupHeap) Push(x any) {
	g := x.(*group)
	g.index = len(*q)
	*q = append(*q, heapEntry{g.wake(), g})
}

func (q *groupHeap) Pop() any {
	old := *q
	g := old[len(old)-1].group
	old[len(old)-1] = heapEntry{}
	*q = old[:len(old)-1]
	g.index = -1
	return g
}
