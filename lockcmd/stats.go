package lockcmd

import (
	"sync/atomic"
	"time"

	"leash/internal/histogram"
	"leash/lockcmd/hold"
	"leash/renewal"
)

// Stats are the figures about locks for INFO and metrics.
type Stats struct {
	Holds int64 // holds that this Leash carries now
	// Holds by the name of their mode: plain, fair, read, write or permit
	HoldsByMode map[string]int64
	Waiters     int64 // commands that wait for a lock now
	Acquires    int64 // grants, including further acquires of an owner
	Releases    int64 // holds ended by their owners or by a disconnect
	Handovers   int64 // grants by a hand-over, among Acquires
	Renewals    int64 // holds renewed or, with LEASE, checked
	Unrenewed   int64 // renewals without an answer; Leash repeats them
	// how long renewals are overdue at a node that answers
	RenewalLag time.Duration
	// how long the hold with the least time left is certainly safe; negative if there is none
	RenewalMargin time.Duration
	Timeouts      int64 // commands answered with LOCKTIMEOUT
	Taken         int64 // acquires answered with nil, because the lock was taken
	// commands answered with LOCKLIMIT because too many wait
	Limited int64
	// acquires answered with LOCKLIMIT because of Config.NameHolds
	NameLimited int64
	Undone      int64            // acquires of unknown outcome that were taken back
	Losses      map[string]int64 // lost holds by reason
	Restored    int64            // holds written back to a new master
	// longest time left of a grace period; 0 for none
	GraceLeft    time.Duration
	GraceMasters int64 // masters in their grace period
	Unlogged     int64 // losses missing in the log because it was too slow

	WaitTimes     histogram.Snapshot // of commands that waited, until they had an answer
	HoldTimes     histogram.Snapshot // of holds that have ended, from the grant on
	HandoverTimes histogram.Snapshot // of the calls that released a lock and granted it to a waiter
}

// counters are the live figures for Stats.
type counters struct {
	timeouts, taken atomic.Int64

	losses [len(lossReasons)]atomic.Int64
}

// lossReasons are all reasons for a loss.
var lossReasons = [...]string{
	renewal.ReasonGone, renewal.ReasonBroken, renewal.ReasonSilence, renewal.ReasonSuspended, hold.ReasonMaxHold,
	hold.ReasonIdle, hold.ReasonQuorum,
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
	c, waits := &s.stats, &s.waits.Stats
	out := Stats{
		Holds: s.holds.Stats.Holds.Load(), Waiters: waits.Waiters.Load(),
		Acquires: s.acquirer.Acquires.Load(), Releases: s.releaser.Releases.Load(),
		Handovers: s.waits.Handovers.Load(), Renewals: s.watchdog.Stats.Renewals.Load(),
		RenewalLag: time.Duration(s.watchdog.Stats.Lag.Load()), Timeouts: c.timeouts.Load(),
		Limited: waits.Limited.Load(), NameLimited: s.acquirer.NameLimited.Load(),
		Restored: s.restorer.Restored.Load(), Undone: s.acquirer.Undone.Load(),
		Unlogged: s.losses.unlogged.Load(),
		Losses:   make(map[string]int64, len(lossReasons)),
	}
	out.Unrenewed, out.Taken = s.watchdog.Stats.Unknowns.Load(), c.taken.Load()
	out.HoldsByMode, out.RenewalMargin = s.holds.Stats.Holds.ByName(), s.watchdog.Margin()
	out.WaitTimes, out.HoldTimes = waits.Times.Snapshot(), s.holds.Stats.Times.Snapshot()
	out.HandoverTimes = s.waits.HandoverTimes.Snapshot()
	masters, longest := s.graces.Active()
	out.GraceMasters, out.GraceLeft = int64(masters), longest
	for i, r := range lossReasons {
		out.Losses[r] = c.losses[i].Load()
	}
	return out
}

// LossReasons are the keys of Stats.Losses.
func LossReasons() []string { return lossReasons[:] }
