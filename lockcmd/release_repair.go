package lockcmd

import (
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/script"
	"leash/renewal"
)

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
