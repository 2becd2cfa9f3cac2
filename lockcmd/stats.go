package lockcmd

import (
	"sync/atomic"
	"time"

	"leash/renewal"
)

// Stats is what INFO shows of the locks.
type Stats struct {
	Holds     int64 // holds this Leash carries now
	Waiters   int64 // commands that wait for a lock now
	Acquires  int64 // locks granted, entries of an owner into its own included
	Releases  int64 // holds ended by their owners, disconnects included
	Handovers int64 // of the grants, those made inside a release
	Renewals  int64 // holds renewed or, for a LEASE, looked at
	// for how long renewals have been due that Redis, though it answers, has not been asked for
	RenewalLag time.Duration
	Timeouts   int64 // commands answered with LOCKTIMEOUT
	// commands that would have had to wait and were answered with LOCKLIMIT
	Limited  int64
	Undone   int64            // acquires of unknown outcome that were taken back
	Losses   map[string]int64 // holds that ended against their owner's will, by reason
	Restored int64            // holds put back where a new master did not have them
	// for how long yet some new master grants nothing; 0 if none does not
	GraceLeft    time.Duration
	GraceMasters int64 // masters of which that is so
	Unlogged     int64 // losses that are not in the log, for it was too slow
}

// counters are the live figures behind Stats.
type counters struct {
	holds, waiters, acquires, releases, handovers, timeouts, limited, undone, unlogged, restored atomic.Int64

	losses [len(lossReasons)]atomic.Int64
}

// lossReasons is the closed set of reasons for a loss.
var lossReasons = [...]string{
	renewal.ReasonGone, renewal.ReasonBroken, renewal.ReasonSilence, renewal.ReasonSuspended, reasonMaxHold, reasonIdle, reasonQuorum,
}

func (c *counters) lost(reason string) {
	for i, r := range lossReasons {
		if r == reason {
			c.losses[i].Add(1)
		}
	}
}

// Stats are the figures of this moment.
func (s *Service) Stats() Stats {
	c := &s.stats
	out := Stats{
		Holds: c.holds.Load(), Waiters: c.waiters.Load(), Acquires: c.acquires.Load(), Releases: c.releases.Load(),
		Handovers: c.handovers.Load(), Renewals: s.watchdog.Stats.Renewals.Load(),
		RenewalLag: time.Duration(s.watchdog.Stats.Lag.Load()), Timeouts: c.timeouts.Load(), Limited: c.limited.Load(),
		Restored: c.restored.Load(), Undone: c.undone.Load(), Unlogged: c.unlogged.Load(), Losses: make(map[string]int64, len(lossReasons)),
	}
	masters, longest := s.graces.active()
	out.GraceMasters, out.GraceLeft = int64(masters), longest
	for i, r := range lossReasons {
		out.Losses[r] = c.losses[i].Load()
	}
	return out
}
