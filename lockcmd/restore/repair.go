package restore

import (
	"time"

	"leash/lockcmd/failover"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// repair restores holds that a round has not found on a master in its grace period. Holds that such
// a master has are corrected once. Until that is answered, nothing is known of missing holds.
func (r *Restorer) repair(batches []renewal.Batch, out [][]renewal.Outcome, sent, until time.Time) {
	if r.Masters == nil {
		return
	}
	for i, outcomes := range out {
		var some []int
		for j, o := range outcomes {
			h := batches[i].Holds[j].Keeper.(*hold.Hold)
			if (o == renewal.Gone || o == renewal.Renewed && r.Masters.NeedsRepair(h.Key(), &h.Watch)) &&
				!h.LeaseOverAndIdle() {
				some = append(some, j)
			}
		}
		if len(some) > 0 {
			r.repairBatch(batches[i].Holds, some, out[i], sent, until)
		}
	}
}

// repairBatch repairs some holds of a batch. They have one master.
func (r *Restorer) repairBatch(all []*renewal.Hold, some []int, out []renewal.Outcome, sent, until time.Time) {
	m, ok := r.Masters.MasterOf(all[some[0]].Keeper.(*hold.Hold).Key(), sent, until)
	if ok && !m.InGrace() {
		return // missing holds are lost
	}
	var positions []int
	var holds []*hold.Hold
	for _, j := range some {
		if out[j] == renewal.Gone {
			out[j] = renewal.Unknown
		}
		if h := all[j].Keeper.(*hold.Hold); ok && h.TryLockRequests() {
			defer h.UnlockRequests()
			positions, holds = append(positions, j), append(holds, h)
		}
	}
	if len(holds) == 0 {
		return
	}
	results, err := r.Redis.Restore(r.restoreArgs(m, holds...), until)
	if err != nil {
		return
	}
	for k, position := range positions {
		out[position] = r.repairOutcome(m, holds[k], results[k], out[position], until)
	}
}

// repairOutcome returns the outcome for a hold by the result of its restore. before is its outcome
// so far.
func (r *Restorer) repairOutcome(m failover.Master, h *hold.Hold, result script.RestoreResult, before renewal.Outcome,
	until time.Time) renewal.Outcome {
	how := r.restoreOutcome(m, h, result)
	switch result.Outcome {
	case script.RestoreMoved:
		if how == renewal.Unknown {
			r.moveAgain(h, result.Record, until) // the next round finds it and corrects the rest
		}
		return how
	case script.Restored, script.RestoreAlreadyThere, script.RestoreHeldByOther:
		return how
	case script.RestoreTombstone:
		if before == renewal.Renewed {
			// It was extended by another way. Its lease is what the master says.
			r.Holds.Watchdog.Check(&h.Watch)
		}
	}
	return before
}

// mayBeOlder reports whether a check, sent at that time, may have found an older state of a lease
// on a new master. left is what the check found. It counts if it takes no time away. Otherwise
// the master may be new and not known as new yet.
func (r *Restorer) mayBeOlder(h *hold.Hold, left time.Duration, sent, until time.Time) bool {
	switch {
	case r.Masters == nil:
		return false
	case r.Masters.NeedsRepair(h.Key(), &h.Watch):
		return true
	case !sent.Add(left).Before(h.SafeUntil()):
		return false
	}
	_, ok := r.Masters.MasterOf(h.Key(), sent, until)
	return !ok || r.Masters.NeedsRepair(h.Key(), &h.Watch)
}
