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

// group is the holds of one database, kind and slot that have one TTL and are renewed equally
// often. The Watchdog's mu guards all fields.
type group struct {
	groupKey
	number    uint32               // in Watchdog.groupTable
	holdTable *idtable.Table[Hold] // the Watchdog's
	holds     []uint32             // their numbers in holdTable
	// answeredAt is when the answer was asked for that Until of a lease comes from. An older answer
	// changes nothing. Other holds have none, because there may be a million of them.
	answeredAt map[*Hold]moment
	due        moment // when to ask the store next; while busy, when it was due
	// deadline is the earliest Until of the holds, or earlier. Checking once too often does no
	// harm.
	deadline       moment
	regular        bool     // due is one of its regular times, and not that of a retry
	busy           bool     // in a round, or in a node's queue
	checkAgain     bool     // checkNow was called while busy
	onRoundEnd     []func() // called after the present round
	onNextRoundEnd []func() // called after the round that follows it
	index          int      // in the heap, -1 outside
}

const (
	slotCount = 16384
	// run is how many neighbouring slots are due one after the other. They usually belong to one
	// node, so a call has many of them. One step has several runs, and so rounds for several nodes.
	// These are on their way at the same time, and Leash sleeps longer between two steps.
	run  = 8
	runs = slotCount / run
	// stride is the distance between the runs that follow each other. It is odd, so that every run
	// has its time, and the golden section of runs, so that the runs of one node are spread evenly.
	stride = 1265
)

// nextDue is the group's first regular due time after now. The slot decides at which point of the
// period that is.
func (k groupKey) nextDue(now moment) moment {
	turn := k.slot/run*stride%runs*run + k.slot%run
	phase := k.every / slotCount * moment(turn)
	at := now - (now-phase)%k.every
	for at <= now {
		at += k.every
	}
	return at
}

// schedule makes g due at its next regular time.
func (g *group) schedule(now moment) { g.due, g.regular = g.nextDue(now), true }

// add adds h to the group. An answer about h that was asked for before known changes nothing.
func (g *group) add(h *Hold, known moment) {
	h.group, h.entry, h.at = g.number, g.holdTable.Add(h), int32(len(g.holds))
	if len(g.holds) == cap(g.holds) { // append would double the capacity; an eighth is enough
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
	last := len(g.holds) - 1
	g.holds[h.at] = g.holds[last]
	g.holdTable.At(g.holds[last]).at = h.at
	g.holds = g.holds[:last]
	g.holdTable.Remove(h.entry)
	h.group = 0
}

// all are the holds of g. None may be removed during the iteration.
func (g *group) all() iter.Seq[*Hold] {
	return func(yield func(*Hold) bool) {
		for _, n := range g.holds {
			if !yield(g.holdTable.At(n)) {
				return
			}
		}
	}
}

// work is how much the store has to do for the group. The unit is the renewal of one hold.
func (g *group) work() int { return len(g.holds) + (len(g.holds)+calmBatch-1)/calmBatch*batchWork }

// wake is when there is something to do for the group.
func (g *group) wake() moment {
	if g.busy {
		return g.deadline
	}
	return min(g.due, g.deadline)
}

// expire removes the holds whose Until has come, and returns the calls that report their loss. It
// sets a new deadline. It does not remove a lease whose Until has come. Another client may have
// extended it, and it lasts a little longer in the store anyway. From then on the watchdog asks the
// store often whether the lease is over. w.mu is held.
func (w *Watchdog) expire(g *group, now moment) (tell []func()) {
	g.deadline = now + g.ttl
	often := g.leaseEndInterval()
	for i := 0; i < len(g.holds); {
		h := g.holdTable.At(g.holds[i])
		switch {
		case now < h.until:
			g.deadline = min(g.deadline, h.until)
			i++
		case !g.lease:
			g.remove(h) // another hold is at index i now
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

// retryDelay is the time to wait before an unknown outcome is asked for again. Leases whose Until
// has come can wait longer.
func (k groupKey) retryDelay() time.Duration {
	if k.lease && k.every <= k.leaseEndInterval() {
		return maxBackoff
	}
	return k.ttl / 12
}

// groupHeap orders groups by wake. It implements container/heap.Interface. Each entry has a copy of
// its group's wake, because the groups lie far apart in memory.
type groupHeap []heapEntry

type heapEntry struct {
	wake  moment // of the group, when the entry was made
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
