package failover

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"leash/lockcmd/script"
	"leash/proxy/slots"
	"leash/renewal"
)

// Auto is a grace period that Leash computes: the watchdog timeout plus the time that an old master
// may serve on by Redis's configuration.
const Auto = time.Duration(-1)

// Config says what Masters needs.
type Config struct {
	Grace    time.Duration // length of a grace period; Auto or more than zero
	Lease    time.Duration // the watchdog timeout
	Redis    *script.Client
	Watchdog *renewal.Watchdog // is told to check the holds of a new master
	Log      *slog.Logger
}

// Masters is what this Leash knows of the masters. A nil value means that there are no grace
// periods. It is safe for concurrent use.
type Masters struct {
	cfg      Config
	duration atomic.Int64 // of a grace period in ns; 0 before it is known

	// mu guards the fields below.
	mu         sync.Mutex
	failing    bool                         // some probe of the last round failed
	masters    map[string]*Master           // by replication id
	slotOwners []slotOwner                  // by slot; one entry for a single Redis
	probeLocks map[slots.Slot]chan struct{} // of size 1, by a master's first slot; held during a probe
	// addresses whose configuration was read, or cannot be read (Auto)
	measured map[string]bool
}

// Master is a server in its time as a master, which began with its promotion or its start.
type Master struct {
	ReplID          string
	id              string    // run id and replication id
	addr            string    // where it was last seen
	since           int64     // when it became master, or was first probed, by its clock, ms
	ClockGraceEnd   int64     // end of its grace period by its clock, ms
	graceEnd        time.Time // the same by our clock
	seen            time.Time // when the last answered probe was sent
	logEnd          bool      // the end of its grace period is to be logged
	restoresStopped bool      // it accepts no restores any more, even in its grace period

	repaired map[*renewal.Hold]struct{} // holds it has in our state; nil outside a grace period
}

// slotOwner is the master that serves a slot.
type slotOwner struct {
	master          *Master
	carriedGraceEnd time.Time // end of a grace period that came along from the slot's last master
}

// New makes Masters. It does no I/O.
func New(cfg Config) *Masters {
	g := &Masters{
		cfg: cfg, masters: make(map[string]*Master), slotOwners: make([]slotOwner, 1),
		probeLocks: make(map[slots.Slot]chan struct{}), measured: make(map[string]bool),
	}
	if cfg.Redis.IsCluster {
		g.slotOwners = make([]slotOwner, slots.Count)
	}
	if cfg.Grace > 0 {
		g.duration.Store(int64(cfg.Grace))
	}
	return g
}

// slot is the index of a key's slotOwner.
func (g *Masters) slot(key string) slots.Slot {
	if len(g.slotOwners) == 1 {
		return 0
	}
	return slots.Of([]byte(key))
}

// GrantingMaster is the replication id of the master that may grant a key, in the form for the
// scripts: "-" for none, "" for any.
func (g *Masters) GrantingMaster(key string) string {
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	b := &g.slotOwners[g.slot(key)]
	if b.master == nil || b.left() > 0 {
		return "-"
	}
	return b.master.ReplID
}

// left is how long nothing is granted in the slot.
func (b *slotOwner) left() time.Duration {
	if b.master == nil {
		return 0
	}
	return max(time.Until(b.master.graceEnd), time.Until(b.carriedGraceEnd))
}

// setOwnerLocked notes that m serves a slot. The grace period of its last master goes on.
func (g *Masters) setOwnerLocked(slot slots.Slot, m *Master) {
	b := &g.slotOwners[slot]
	if b.master != nil && b.master != m && b.master.graceEnd.After(b.carriedGraceEnd) {
		b.carriedGraceEnd = b.master.graceEnd
	}
	b.master = m
}

// LeftAt is how long the master with that replication id, which serves a key, grants nothing there.
// ok is false when the master is not known.
func (g *Masters) LeftAt(key, replid string) (left time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.masters[replid]
	if m == nil {
		return 0, false
	}
	g.setOwnerLocked(g.slot(key), m)
	return g.slotOwners[g.slot(key)].left(), true
}

// Active returns how many masters are in their grace period, and how long the longest one lasts.
func (g *Masters) Active() (masters int, longest time.Duration) {
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

// Left is how long nothing is granted for a key, as far as is known.
func (g *Masters) Left(key string) time.Duration {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.slotOwners[g.slot(key)].left(), 0)
}

// MasterOf is the master of a key, probed after since. ok is false when it does not answer.
func (g *Masters) MasterOf(key string, since, until time.Time) (m Master, ok bool) {
	for looked := false; ; looked = true {
		g.mu.Lock()
		if by := g.slotOwners[g.slot(key)].master; by != nil {
			m = *by
		}
		g.mu.Unlock()
		if ok = m.seen.After(since); ok || looked {
			return m, ok
		}
		g.Probe(key, since, until)
	}
}

// InGrace reports whether m accepts restores: it is in its own grace period.
func (m Master) InGrace() bool { return !m.restoresStopped && time.Now().Before(m.graceEnd) }

// StopRestores notes that the master with that replication id accepts no restores any more. It
// still grants nothing until its grace period is over.
func (g *Masters) StopRestores(replid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.masters[replid]; m != nil {
		m.restoresStopped = true
	}
}

// NeedsRepair reports whether the master of h, a hold of that key, is in its grace period and may
// have h in an older state.
func (g *Masters) NeedsRepair(key string, h *renewal.Hold) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.slotOwners[g.slot(key)].master
	if m == nil || !m.InGrace() {
		return false
	}
	_, told := m.repaired[h]
	return !told
}

// MarkRepaired notes that the master with that replication id has h in our state.
func (g *Masters) MarkRepaired(replid string, h *renewal.Hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.masters[replid]
	if m == nil || !m.InGrace() {
		return
	}
	if m.repaired == nil {
		m.repaired = make(map[*renewal.Hold]struct{})
	}
	m.repaired[h] = struct{}{}
}
