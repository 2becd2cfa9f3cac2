package lockcmd

import (
	"sync"
	"sync/atomic"
	"time"

	"leash/lockcmd/script"
)

// The grace period (Config.FailoverGrace) protects locks that a new master may have forgotten.
//
// Redis replicates asynchronously. A replica that becomes the master lacks the last writes of the
// old one. A server that restarts may lack everything. Locks that an owner still relies on look
// free there. So from the first probe of such a master on, it grants nothing until every old lease
// must be over. Owners go on with their holds. Holds that the master lacks are written back
// (restore.go). Holds that it has in an older state are corrected (repair.go).
//
// # Why it is safe
//
//  1. A belief that comes from the old master ends a TTL after the last request was sent that the
//     old master answered (R25). So it ends at the latest a TTL after the old master stopped.
//  2. The grace period begins at the first probe of the new master, which is after its promotion.
//     It lasts for a TTL plus the time that an old master may serve on beside the new one.
//  3. When it is over, each such belief is over. Or its hold is on the new master, where it was
//     renewed or written back.
//  4. A script grants only on a master that this Leash has seen after its grace period. The script
//     compares the replication id itself, in Redis. So no Leash has to notice a failover in time. A
//     Leash that notices it late only loses holds.
//
// Package internal/failover searches a model of this.
//
// # Which master is new
//
// A promoted replica keeps its run_id. A server that restarts has a new one. The replication id is
// new in both cases. It is also new when the first replica joins a master, or an hour after the
// last one has left, but then there is no second replication id.
//
//   - Without a second id, a server has been master since its process began. Redis tells when.
//   - With a second id, it was promoted, and Redis does not tell when. The first probe leaves a
//     mark with the time in the server itself.
//   - If either time lies in the future of the server's clock, that clock went back. Then the time
//     of the first probe counts.
//
// No grace period begins with a first lock on an empty Redis, with a connection that breaks, or
// with a slot that moves. A slot that moves away from a master in its grace period takes the rest
// of that period along, if this Leash has seen it there.
//
// # What it needs
//
//   - No renewed TTL is longer than the grace period less the time that an old master may serve on.
//     Longer leases are written back if their connection lives and its Leash reaches the new master
//     within the grace period. Otherwise they are not covered.
//   - An old master that is cut off stops within that time, and before the leases that it has are
//     over. Otherwise a hold may be renewed at the new master only, run out at the old one, and be
//     granted there. Its last renewal at the old master is at most a third of the TTL old, so two
//     thirds are left.
//   - A master of Redis Cluster stops after cluster-node-timeout and up to half of that more. A
//     single Redis with sentinels stops after min-replicas-max-lag if min-replicas-to-write is 1. A
//     master that was frozen and wakes up may grant until it knows of the new one.
//   - For holders to keep their locks, the promotion must fit into those two thirds as well.
//     Otherwise they are told of a loss (silence), which is safe.
//   - A Leash that the new master has answered asks the old one no more. What it does there
//     afterwards is not corrected.
//   - Everybody who grants obeys the grace period. Redisson's clients do not, and a Leash without
//     the flag does not.
//   - The servers' clocks do not step by a lease (R2).
//   - A replica that never had a copy is not promoted.
//
// # Older states
//
// The Leash of the carrier corrects each hold once, as soon as it has met the new master, within
// the grace period. It corrects the count, the time left, and the carrier. The record counts how
// often the hold was moved, and the later carrier has it. The other one is told that it was moved.
//
// Requests that reach the new master before that are made good:
//
//   - A renewal that finds less time left of a lease than its owner was told counts only after
//     the master was probed since. So is a release that finds another count than this Leash knows.
//   - A request that writes a hold back may arrive late, if its answer was lost. So a release
//     leaves a tombstone first, and the late request then does nothing.
//
// # What it does not cover
//
//   - A release through another Leash, or a move on the new master, before the carrier's Leash has
//     met that master. It acts on the state that it finds. If the second of two counts was
//     forgotten, a release of one count may end the hold. If a move was forgotten and another was
//     made on the new master, the connection with more moves has the hold.
//   - A release by another connection that was forgotten. The hold is there again. It is renewed if
//     its carrier's Leash does not know of the release either.
//   - Tombstones and answers under an ID that were forgotten. So a hold that was broken may be
//     written back, if its carrier's Leash was not told.
//
// Plain counters and latches have no leases and no holders, so they need no grace period.

// GraceAuto is a FailoverGrace that Leash computes: the watchdog timeout plus the time that an old
// master may serve on by Redis's configuration.
const GraceAuto = time.Duration(-1)

// gracePeriods is what this Leash knows of the masters. A nil value means that there are no grace
// periods.
type gracePeriods struct {
	service  *Service
	duration atomic.Int64 // of a grace period in ns; 0 before it is known

	// mu guards the fields below.
	mu         sync.Mutex
	failing    bool                    // some probe of the last round failed
	masters    map[string]*masterState // by replication id
	slotOwners []slotOwner             // by slot; one entry for a single Redis
	probeLocks map[int]chan struct{}   // of size 1, by a master's first slot; held during a probe
	// addresses whose configuration was read, or cannot be read (GraceAuto)
	measured map[string]bool
}

// masterState is a server in its time as a master, which began with its promotion or its start.
type masterState struct {
	replid          string
	id              string    // run id and replication id
	addr            string    // where it was last seen
	since           int64     // when it became master, or was first probed, by its clock, ms
	clockGraceEnd   int64     // end of its grace period by its clock, ms
	graceEnd        time.Time // the same by our clock
	seen            time.Time // when the last answered probe was sent
	logEnd          bool      // the end of its grace period is to be logged
	restoresStopped bool      // it accepts no restores any more, even in its grace period

	repaired map[*hold]struct{} // holds it has in our state; nil outside a grace period
}

// slotOwner is the master that serves a slot.
type slotOwner struct {
	master          *masterState
	carriedGraceEnd time.Time // end of a grace period that came along from the slot's last master
}

func newGracePeriods(s *Service) *gracePeriods {
	if s.cfg.FailoverGrace == 0 {
		return nil
	}
	g := &gracePeriods{
		service: s, masters: make(map[string]*masterState), slotOwners: make([]slotOwner, 1),
		probeLocks: make(map[int]chan struct{}), measured: make(map[string]bool),
	}
	if s.redis.IsCluster {
		g.slotOwners = make([]slotOwner, script.Slots)
	}
	if s.cfg.FailoverGrace > 0 {
		g.duration.Store(int64(s.cfg.FailoverGrace))
	}
	return g
}

// slot is the index of a key's slotOwner.
func (g *gracePeriods) slot(key string) int {
	if len(g.slotOwners) == 1 {
		return 0
	}
	return script.SlotOf(key)
}

// grantingMaster is the replication id of the master that may grant a key, in the form for the
// scripts: "-" for none, "" for any.
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

// left is how long nothing is granted in the slot.
func (b *slotOwner) left() time.Duration {
	if b.master == nil {
		return 0
	}
	return max(time.Until(b.master.graceEnd), time.Until(b.carriedGraceEnd))
}

// setOwnerLocked notes that m serves a slot. The grace period of its last master goes on.
func (g *gracePeriods) setOwnerLocked(slot int, m *masterState) {
	b := &g.slotOwners[slot]
	if b.master != nil && b.master != m && b.master.graceEnd.After(b.carriedGraceEnd) {
		b.carriedGraceEnd = b.master.graceEnd
	}
	b.master = m
}

// leftAt is how long the master with that replication id, which serves a key, grants nothing there.
// ok is false when the master is not known.
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

// refusedInGrace handles an attempt at key that this master may not grant. again is true when the
// master may grant now.
func (s *Service) refusedInGrace(key, replid string, until time.Time) (r result, again bool) {
	left, ok := s.graces.leftAt(key, replid)
	if !ok {
		s.graces.probeFor(key, time.Now(), until)
		left, ok = s.graces.leftAt(key, replid)
	}
	switch {
	case !ok:
		s.redis.RefreshTopologyAfter(script.Refused)
		return result{kind: busy, text: msgRefused}, false
	case left > 0:
		return result{kind: taken, left: left}, false
	}
	return result{}, true
}

// active returns how many masters are in their grace period, and how long the longest one lasts.
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

// left is how long nothing is granted for a key, as far as is known.
func (g *gracePeriods) left(key string) time.Duration {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.slotOwners[g.slot(key)].left(), 0)
}

// masterOf is the master of a key, probed after since. ok is false when it does not answer.
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

// inGrace reports whether m accepts restores: it is in its own grace period.
func (m masterState) inGrace() bool { return !m.restoresStopped && time.Now().Before(m.graceEnd) }

// stopRestores notes that the master with that replication id accepts no restores any more. It
// still grants nothing until its grace period is over.
func (g *gracePeriods) stopRestores(replid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.masters[replid]; m != nil {
		m.restoresStopped = true
	}
}

// needsRepair reports whether the master of h is in its grace period and may have h in an older
// state.
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

// markRepaired notes that the master with that replication id has h in our state.
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
