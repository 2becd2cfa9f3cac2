package lockcmd

import (
	"context"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/failover"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// repair restores holds that a round has not found on a master in its grace period. Holds that such
// a master has are corrected once. Until that is answered, nothing is known of missing holds.
func (s *store) repair(ctx context.Context, batches []renewal.Batch, out [][]renewal.Outcome, sent time.Time) {
	if s.graces == nil {
		return
	}
	for i, outcomes := range out {
		var some []int
		for j, o := range outcomes {
			h := batches[i].Holds[j].Keeper.(*hold.Hold)
			if (o == renewal.Gone || o == renewal.Renewed && s.graces.NeedsRepair(h.Key(), &h.Watch)) &&
				!h.LeaseOverAndIdle() {
				some = append(some, j)
			}
		}
		if len(some) > 0 {
			s.repairBatch(ctx, batches[i].Holds, some, out[i], sent)
		}
	}
}

// repairBatch repairs some holds of a batch. They have one master.
func (s *store) repairBatch(ctx context.Context, all []*renewal.Hold, some []int, out []renewal.Outcome,
	sent time.Time) {
	deadline, _ := ctx.Deadline()
	m, ok := s.graces.MasterOf(all[some[0]].Keeper.(*hold.Hold).Key(), sent, deadline)
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
	results, unknown, err := s.redis.RestoreOnce(ctx, s.restoreArgs(m, holds...))
	if unknown {
		for _, h := range holds {
			s.noteRestorePending(h)
		}
	}
	if err != nil {
		return
	}
	for k, position := range positions {
		out[position] = s.repairOutcome(m, holds[k], results[k], out[position], deadline)
	}
}

// repairOutcome returns the outcome for a hold by the result of its restore. before is its outcome
// so far.
func (s *store) repairOutcome(m failover.Master, h *hold.Hold, r script.RestoreResult, before renewal.Outcome,
	deadline time.Time) renewal.Outcome {
	how := s.restoreOutcome(m, h, r)
	switch r.Outcome {
	case script.RestoreMoved:
		if how == renewal.Unknown {
			s.moveAgain(h, r.Record, deadline) // the next round finds it and corrects the rest
		}
		return how
	case script.Restored, script.RestoreAlreadyThere, script.RestoreHeldByOther:
		return how
	case script.RestoreTombstone:
		if before == renewal.Renewed {
			// It was extended by another way. Its lease is what the master says.
			s.watchdog.Check(&h.Watch)
		}
	}
	return before
}

// mayBeOlder reports whether a check, sent at that time, may have found an older state of a lease
// on a new master. left is what the check found. It counts if it takes no time away. Otherwise
// the master may be new and not known as new yet.
func (s *store) mayBeOlder(ctx context.Context, h *hold.Hold, left time.Duration, sent time.Time) bool {
	switch {
	case s.graces == nil:
		return false
	case s.graces.NeedsRepair(h.Key(), &h.Watch):
		return true
	case !sent.Add(left).Before(h.SafeUntil()):
		return false
	}
	deadline, _ := ctx.Deadline()
	_, ok := s.graces.MasterOf(h.Key(), sent, deadline)
	return !ok || s.graces.NeedsRepair(h.Key(), &h.Watch)
}

// repairAnswer checks an answer with another count than this Leash knows. It may come from a new
// master that was not known as new and has an older state of the hold. Then it corrects the state,
// and the answer counts as if the state had been right. script.StaleRequest tells the caller to
// send the release again.
func (rel *releaseRequest) repairAnswer(code int64, sent, until time.Time) (int64, error) {
	h, s := rel.hold, rel.service
	ended, counts := rel.keepsCounts && code == script.HoldEnded,
		!rel.keepsCounts && !rel.all && code == script.CountsRemain
	if s.graces == nil || !ended && !counts || rel.outcomeUnknown {
		return code, nil
	}
	if _, ok := s.graces.MasterOf(h.Key(), sent, until); !ok || !s.graces.NeedsRepair(h.Key(), &h.Watch) {
		return code, nil
	}
	if ended {
		h.Decrement(rel.putBackID)
		rel.decremented = true
	}
	how, err := s.restore(h, until)
	switch {
	case ended && (err != nil || how == renewal.Renewed): // otherwise the watchdog restores it
		return script.CountsRemain, nil
	case counts && err == nil && how == renewal.Renewed:
		return script.StaleRequest, nil
	}
	return code, err
}

// blockRestore writes a tombstone before the release, if a restore with an unknown outcome may
// still arrive. That would bring the hold back for nobody. Any other tombstone has the same effect.
func (rel *releaseRequest) blockRestore(until time.Time) (err error) {
	h, s := rel.hold, rel.service
	left := time.Until(h.Details().RestorePendingUntil)
	if left <= 0 || rel.keepsCounts || rel.restoreBlocked {
		return nil
	}
	rel.restoreBlocked, err = s.redis.WriteTombstone(h.Ref(), event.ReleasePending, left, "", until)
	return err
}

// unblockRestore removes that tombstone, because the hold goes on. It waits for Redis. After its
// deadline the tombstone expires by itself.
func (rel *releaseRequest) unblockRestore() {
	s := rel.service
	if _, err := s.redis.WriteTombstone(rel.hold.Ref(), event.ReleasePending, 0, "", s.deadline()); err == nil {
		rel.restoreBlocked = false
	}
}
