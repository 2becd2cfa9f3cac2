package view

import (
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

	WaitTimes     histogram.Snapshot // of commands that waited, until they had an answer
	HoldTimes     histogram.Snapshot // of holds that have ended, from the grant on
	HandoverTimes histogram.Snapshot // of the calls that released a lock and granted it to a waiter
}

// lossReasons are all reasons for a loss.
var lossReasons = [...]string{
	renewal.ReasonGone, renewal.ReasonBroken, renewal.ReasonSilence, renewal.ReasonSuspended, hold.ReasonMaxHold,
	hold.ReasonIdle, hold.ReasonQuorum,
}

// LossReasons are the keys of Stats.Losses.
func LossReasons() []string { return lossReasons[:] }

// Stats returns the figures of this moment.
func (v *Viewer) Stats() Stats {
	r, a := v.recorder, v.acquirer
	masters, longest := a.Masters.Active()
	renewals, holds, waits := a.Holds.Watchdog, &a.Holds.Stats, a.Waits
	out := Stats{
		Holds: holds.Holds.Load(), HoldsByMode: holds.Holds.ByName(), HoldTimes: holds.Times.Snapshot(),
		Waiters: waits.Stats.Waiters.Load(), Limited: waits.Stats.Limited.Load(),
		WaitTimes: waits.Stats.Times.Snapshot(),
		Handovers: waits.Handovers.Load(), HandoverTimes: waits.HandoverTimes.Snapshot(),
		Acquires: a.Acquires.Load(), NameLimited: a.NameLimited.Load(), Undone: a.Undone.Load(),
		Timeouts: r.Timeouts.Load(), Taken: r.Taken.Load(),
		Releases: a.Releases.Load(), Restored: a.Restored.Load(),
		Renewals: renewals.Stats.Renewals.Load(), Unrenewed: renewals.Stats.Unknowns.Load(),
		RenewalLag: time.Duration(renewals.Stats.Lag.Load()), RenewalMargin: renewals.Margin(),
		GraceMasters: int64(masters), GraceLeft: longest,
		Losses: make(map[string]int64, len(lossReasons)),
	}
	for i, reason := range lossReasons {
		out.Losses[reason] = r.losses[i].Load()
	}
	return out
}
