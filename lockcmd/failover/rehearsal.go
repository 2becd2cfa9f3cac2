package failover

import (
	"slices"
	"time"

	"leash/proxy/slots"
)

// Rehearsal begins and ends grace periods without a failover. Tests of other packages use it.
type Rehearsal struct{ Masters *Masters }

// Never treats every master as out of its grace period, however young it is.
func (r Rehearsal) Never() { r.Masters.duration.Store(int64(-time.Hour)) }

// Begin treats the master of a key as new until end is called. It returns nil if nobody serves the
// key until then.
func (r Rehearsal) Begin(key string, until time.Time) (end func()) {
	g := r.Masters
	g.ProbeAll(time.Now(), until)
	for !r.knowsAll() && time.Now().Before(until) { // a slow machine may take longer than one probe may
		g.ProbeAll(time.Now(), until)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.slotOwners[g.slot(key)].master
	if m == nil {
		return nil
	}
	// probes do not change these
	m.since, m.graceEnd, m.ClockGraceEnd = 0, time.Now().Add(time.Hour), time.Now().Add(time.Hour).UnixMilli()
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		m.graceEnd, m.ClockGraceEnd = time.Now(), time.Now().UnixMilli()
	}
}

// knowsAll reports whether the master of each slot is known.
func (r Rehearsal) knowsAll() bool {
	g := r.Masters
	g.mu.Lock()
	defer g.mu.Unlock()
	return !slices.ContainsFunc(g.slotOwners, func(o slotOwner) bool { return o.master == nil })
}

// Forget forgets which master serves a key, until the next probe.
func (r Rehearsal) Forget(key string) {
	g := r.Masters
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slotOwners[g.slot(key)].master = &Master{ReplID: "before", id: "before:before"}
}

// EndAll ends the grace periods of all masters. It returns how many there are.
func (r Rehearsal) EndAll(until time.Time) (masters int) {
	g := r.Masters
	g.ProbeAll(time.Now(), until)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.masters {
		m.since, m.graceEnd = 0, time.Now() // a probe does not change these
	}
	return len(g.masters)
}

// SilenceAll lets no probe finish until end is called, even if slots move meanwhile.
func (r Rehearsal) SilenceAll() (end func()) {
	var locks []chan struct{}
	for slot := range slots.Slot(len(r.Masters.slotOwners)) {
		locks = append(locks, r.Masters.probeLock(slot))
	}
	for _, lock := range locks {
		lock <- struct{}{}
	}
	return func() {
		for _, lock := range locks {
			<-lock
		}
	}
}
