package lockcmd

import (
	"sync"
	"sync/atomic"
	"time"
)

// The grace (Config.FailoverGrace) is for what a new master may have forgotten. Redis replicates
// behind the client's back, so a replica that becomes the master lacks the last writes of the old
// one, and a server that comes back may lack all: locks that somebody believes in are free there.
// From the moment such a master is first looked at, for as long as an old lease may last, nothing
// is granted there; whoever holds a lock goes on, and what is missing of it is put back
// (restore.go).
//
// The argument. Let a belief come from the old master. It ends a TTL after the last request that
// the old one answered was sent (R25), so at the latest a TTL after the old one stopped. The grace
// begins at the first look at the new master, which is after its promotion, and lasts for a TTL and
// as long as an old master may serve on beside it. So when it is over, every such belief is, or its
// hold is on the new master, where it was renewed or put back. And no script grants unless it runs
// on a master that this Leash has seen out of grace: it compares the replication id itself. So
// nobody needs to notice in time for that; who notices late only loses a hold. Package
// internal/failover searches a model of this.
//
// Which master it is. A promoted replica keeps its run_id, and a server that comes back has another
// one; its replication id is new in both cases. It is also new when the first replica joins a
// master, or an hour after the last one has left; but then there is no second id, which remembers
// the one before a promotion. So: without a second id, a master is one since its process began, of
// which Redis says when. With one, it was promoted, nobody knows when, and the first look leaves a
// mark with the time in the server itself. Where either is yet to come by its clock, that went
// back, and the first look counts. A first lock on an empty Redis, a connection that breaks, and a
// slot that moves begin no grace.
//
// A slot that moves from a master in grace to another takes its grace along, as far as this Leash
// has seen it there.
//
// What it needs:
//   - No renewed TTL is longer than the grace less the time that an old master may serve on. Longer
//     leases are put back, if their connection lives and its Leash reaches the new master within
//     the grace; else they are not covered.
//   - An old master that is cut off stops in that time, and before the leases that it has are over:
//     a hold may be renewed at the new master alone, run out at the old one, and be granted there.
//     It was renewed there a third of its TTL before, so two thirds are left. Redis Cluster's stops
//     after cluster-node-timeout and up to half of that more, since it may have heard from the
//     others just before; a single Redis with sentinels after min-replicas-max-lag if
//     min-replicas-to-write is 1. One that was frozen, and wakes up, may grant until it hears of
//     the other. For holders to keep their locks, the promotion must fit in those two thirds, too;
//     else they are told of a loss (silence), and all is safe.
//   - A Leash that the new master has answered asks the old one no more: what it does there then is
//     not put right.
//   - Everybody who grants obeys it. Redisson's clients do not, nor a Leash without the flag.
//   - The clocks of the servers do not step by a lease (R2).
//   - A replica that never had a copy is not promoted.
//
// Beside what is missing, what a new master has in an older state is put right once, by its
// carrier's Leash, as soon as that has met the master, within the grace: its count, for how long it
// lasts, and its carrier (its record counts how often it was moved, and the later one has it; the
// other one is told that it was moved). What reaches the new master before that is made good: a
// look that takes from a lease what its owner was told is believed, and so is a release that finds
// another count than this Leash knows of, only once the master was looked at since. A request that
// puts a hold back and whose answer was lost may arrive late; a release then leaves a tombstone
// first, and it does nothing.
//
// What it does not cover. A release by another connection's Leash, or a move on the new master,
// before the carrier's Leash has met that: it goes by the state that it finds, so a release of one
// of two counts may end a hold of which the second was forgotten; and of a move that was forgotten
// and one that was made on the new master instead, the connection that was moved to more often has
// the hold. A release by another connection that was forgotten: the hold is there again, and
// renewed if its carrier's Leash has not heard of it either. Tombstones and answers under an ID
// that were forgotten: so a hold that was broken may be put back, if its carrier's Leash was not
// told.
//
// Plain counters and latches are no leases: nobody's belief in them ends, so there is nothing to
// wait for, and they go on as they are.

// GraceAuto is a FailoverGrace as long as the watchdog's timeout and what Redis's configuration
// says of an old master.
const GraceAuto = time.Duration(-1)

// gracePeriods is what this Leash knows of the masters. A nil one knows of no grace.
type gracePeriods struct {
	service  *Service
	duration atomic.Int64 // the grace in nanoseconds; 0 before it is known

	// mu guards the fields below.
	mu         sync.Mutex
	failing    bool                    // the last round failed in part
	masters    map[string]*masterState // by replication id
	slotOwners []slotOwner             // who serves each slot; one for a single Redis
	probeLocks map[int]chan struct{}   // of size 1, by a master's first slot: somebody looks at it
	// the addresses whose configuration has been read, or does not tell (GraceAuto)
	measured map[string]bool
}

// masterState is a server as a master, since its promotion or its start.
type masterState struct {
	replid          string
	id              string    // run id and replication id
	addr            string    // where it was seen
	since           int64     // when it became one, or was first looked at, by its clock, ms
	clockGraceEnd   int64     // of its grace, by its clock, ms
	graceEnd        time.Time // of its grace, by ours
	seen            time.Time // when the last look was sent that it answered
	logEnd          bool      // its grace was begun and not yet told to be over
	restoresStopped bool      // nothing is put back any more, though that may not be over

	repaired map[*hold]struct{} // the holds that it knows as we do; nil when it is in no grace
}

// slotOwner is who serves a slot.
type slotOwner struct {
	master          *masterState
	carriedGraceEnd time.Time // a grace that it brought along from another master ends then
}

func newGracePeriods(s *Service) *gracePeriods {
	if s.cfg.FailoverGrace == 0 {
		return nil
	}
	g := &gracePeriods{
		service: s, masters: make(map[string]*masterState), slotOwners: make([]slotOwner, 1),
		probeLocks: make(map[int]chan struct{}), measured: make(map[string]bool),
	}
	if s.cluster {
		g.slotOwners = make([]slotOwner, slots)
	}
	if s.cfg.FailoverGrace > 0 {
		g.duration.Store(int64(s.cfg.FailoverGrace))
	}
	return g
}

// slot is where a key's bond is.
func (g *gracePeriods) slot(key string) int {
	if len(g.slotOwners) == 1 {
		return 0
	}
	return slotOf(key)
}

// grantingMaster is the replication id of the master that may grant a key, as the scripts take it: "-" for
// none, "" for any.
func (g *gracePeriods) grantingMaster(key string) string {
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	b := &g.slotOwners[g.slot(key)]
	if b.master == nil || b.left() > 0 {
		return "-"
	}
	return b.master.replid
}

// left is for how long nothing is granted.
func (b *slotOwner) left() time.Duration {
	if b.master == nil {
		return 0
	}
	return max(time.Until(b.master.graceEnd), time.Until(b.carriedGraceEnd))
}

// setOwnerLocked says that a slot is served by m. The grace of who did before counts on.
func (g *gracePeriods) setOwnerLocked(slot int, m *masterState) {
	b := &g.slotOwners[slot]
	if b.master != nil && b.master != m && b.master.graceEnd.After(b.carriedGraceEnd) {
		b.carriedGraceEnd = b.master.graceEnd
	}
	b.master = m
}

// leftAt says for how long the master with that replication id, which serves a key, grants nothing
// there. ok is false when it is not known.
func (g *gracePeriods) leftAt(key, replid string) (left time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.masters[replid]
	if m == nil {
		return 0, false
	}
	g.setOwnerLocked(g.slot(key), m)
	return g.slotOwners[g.slot(key)].left(), true
}

// refusedInGrace is what becomes of a look at key's lock that this master may not grant. again says that it
// may by now.
func (s *Service) refusedInGrace(key, replid string, until time.Time) (r result, again bool) {
	left, ok := s.graces.leftAt(key, replid)
	if !ok {
		s.graces.probeFor(key, time.Now(), until)
		left, ok = s.graces.leftAt(key, replid)
	}
	switch {
	case !ok:
		s.refreshTopologyAfter(refused)
		return result{kind: busy, text: msgRefused}, false
	case left > 0:
		return result{kind: taken, left: left}, false
	}
	return result{}, true
}

// active is how many masters grant nothing now, and for how long the last of them does.
func (g *gracePeriods) active() (masters int, longest time.Duration) {
	if g == nil {
		return 0, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.masters {
		if left := time.Until(m.graceEnd); left > 0 {
			masters++
			longest = max(longest, left)
		}
	}
	return masters, longest
}

// left is for how long nothing is granted of a key, as far as is known.
func (g *gracePeriods) left(key string) time.Duration {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.slotOwners[g.slot(key)].left(), 0)
}

// masterOf is the master of a key, which has been looked at since then; ok is false when it does not
// answer.
func (g *gracePeriods) masterOf(key string, since, until time.Time) (m masterState, ok bool) {
	for looked := false; ; looked = true {
		g.mu.Lock()
		if by := g.slotOwners[g.slot(key)].master; by != nil {
			m = *by
		}
		g.mu.Unlock()
		if ok = m.seen.After(since); ok || looked {
			return m, ok
		}
		g.probeFor(key, since, until)
	}
}

// inGrace reports whether m is in grace itself: what it lacks may be put back.
func (m masterState) inGrace() bool { return !m.restoresStopped && time.Now().Before(m.graceEnd) }

// stopRestores says that the master with that replication id takes nothing back any more. It grants
// nothing, though, for as long as it was to.
func (g *gracePeriods) stopRestores(replid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.masters[replid]; m != nil {
		m.restoresStopped = true
	}
}

// needsRepair reports whether the master of h, which is in grace, may know less of h than we do: an older
// count, or a shorter time.
func (g *gracePeriods) needsRepair(h *hold) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.slotOwners[g.slot(h.key())].master
	if m == nil || !m.inGrace() {
		return false
	}
	_, told := m.repaired[h]
	return !told
}

// markRepaired says that the master with that replication id knows h as we do.
func (g *gracePeriods) markRepaired(replid string, h *hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.masters[replid]
	if m == nil || !m.inGrace() {
		return
	}
	if m.repaired == nil {
		m.repaired = make(map[*hold]struct{})
	}
	m.repaired[h] = struct{}{}
}
