package lockcmd

import (
	"sync/atomic"
	"time"

	"leash/renewal"
)

// Stats are the figures about locks for INFO.
type Stats struct {
	Holds     int64 // holds that this Leash carries now
	Waiters   int64 // commands that wait for a lock now
	Acquires  int64 // grants, including further acquires of an owner
	Releases  int64 // holds ended by their owners or by a disconnect
	Handovers int64 // grants by a hand-over, among Acquires
	Renewals  int64 // holds renewed or, with LEASE, checked
	// how long renewals are overdue at a node that answers
	RenewalLag time.Duration
	Timeouts   int64 // commands answered with LOCKTIMEOUT
	// commands answered with LOCKLIMIT because too many wait
	Limited  int64
	Undone   int64            // acquires of unknown outcome that were taken back
	Losses   map[string]int64 // lost holds by reason
	Restored int64            // holds written back to a new master
	// longest time left of a grace period; 0 for none
	GraceLeft    time.Duration
	GraceMasters int64 // masters in their grace period
	Unlogged     int64 // losses missing in the log because it was too slow
}

// counters are the live figures for Stats.
type counters struct {
	holds, waiters, acquires, releases, handovers, timeouts, limited, undone, unlogged, restored atomic.Int64

	losses [len(lossReasons)]atomic.Int64
}

// lossReasons are all reasons for a loss.
var lossReasons = [...]string{
	renewal.ReasonGone, renewal.ReasonBroken, renewal.ReasonSilence, renewal.ReasonSuspended, reasonMaxHold,
	reasonIdle, reasonQuorum,
}

func (c *counters) lost(reason string) {
	for i, r := range lossReasons {
		if r == reason {
			c.losses[i].Add(1)
		}
	}
}

// Stats returns the figures of this moment.
func (s *Service) Stats() Stats {
	c := &s.stats
	out := Stats{
		Holds: c.holds.Load(), Waiters: c.waiters.Load(), Acquires: c.acquires.Load(), Releases: c.releases.Load(),
		Handovers: c.handovers.Load(), Renewals: s.watchdog.Stats.Renewals.Load(),
		RenewalLag: time.Duration(s.watchdog.Stats.Lag.Load()), Timeouts: c.timeouts.Load(), Limited: c.limited.Load(),
		Restored: c.restored.Load(), Undone: c.undone.Load(), Unlogged: c.unlogged.Load(),
		Losses: make(map[string]int64, len(lossReasons)),
	}
	masters, longest := s.graces.Active()
	out.GraceMasters, out.GraceLeft = int64(masters), longest
	for i, r := range lossReasons {
		out.Losses[r] = c.losses[i].Load()
	}
	return out
}
