package lockcmd

import (
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// repairAnswer checks an answer with another count than this Leash knows. It may come from a new
// master that was not known as new and has an older state of the hold. Then it corrects the state,
// and the answer counts as if the state had been right. staleRequest tells the caller to send the
// release again.
func (rel *releaseRequest) repairAnswer(code int64, sent, until time.Time) (int64, error) {
	h, s := rel.hold, rel.service
	ended, counts := rel.keepsCounts && code == holdEnded, !rel.keepsCounts && !rel.all && code == countsRemain
	if s.graces == nil || !ended && !counts || rel.call.OutcomeUnknown {
		return code, nil
	}
	if _, ok := s.graces.masterOf(h.key(), sent, until); !ok || !s.graces.needsRepair(h) {
		return code, nil
	}
	if ended {
		h.decrement(rel.putBackID)
		rel.decremented = true
	}
	how, err := s.restore(h, until)
	switch {
	case ended && (err != nil || how == renewal.Renewed): // otherwise the watchdog restores it
		return countsRemain, nil
	case counts && err == nil && how == renewal.Renewed:
		return staleRequest, nil
	}
	return code, err
}

// releasePendingText is the tombstone of a hold that is about to be released.
const releasePendingText = releasedText + " here"

// blockRestore writes a tombstone before the release, if a restore with an unknown outcome may
// still arrive. That would bring the hold back for nobody. Any other tombstone has the same effect.
func (rel *releaseRequest) blockRestore(until time.Time) error {
	h, s := rel.hold, rel.service
	h.carrier.mu.Lock()
	left := time.Until(h.readExtra().restorePendingUntil)
	h.carrier.mu.Unlock()
	if left <= 0 || rel.keepsCounts || rel.restoreBlocked {
		return nil
	}
	n, err := s.redis.AskInt(rel.blockRestoreCall(left), until)
	rel.restoreBlocked = n == 1
	return err
}

// unblockRestore removes that tombstone, because the hold goes on. It waits for Redis. After its
// deadline the tombstone expires by itself.
func (rel *releaseRequest) unblockRestore() {
	if _, err := rel.service.redis.AskInt(rel.blockRestoreCall(0), rel.service.deadline()); err == nil {
		rel.restoreBlocked = false
	}
}

// blockRestoreCall writes the tombstone for a time; zero removes it.
func (rel *releaseRequest) blockRestoreCall(lasts time.Duration) *script.Call {
	h := rel.hold
	return &script.Call{
		Script: script.TombstoneScript, DB: int(h.db), Keys: []string{script.TombstoneKey(h.key(), h.token, h.carrier.name)}, Args: script.Args(releasePendingText, lasts.Milliseconds()),
	}
}
