package lockcmd

import (
	"time"

	"leash/renewal"
)

// repairAnswer is about an answer that says another count of the hold than this Leash knows of. It may be
// that of a new master, which was not known as one when it was asked and has the hold in an older
// state: then that is put right, and the release was the one that was meant. tooLate says that it
// is to be sent once more.
func (rel *releaseRequest) repairAnswer(code int64, sent, until time.Time) (int64, error) {
	h, s := rel.hold, rel.service
	ended, counts := rel.keepsCounts && code == holdEnded, !rel.keepsCounts && !rel.all && code == countsRemain
	if s.graces == nil || !ended && !counts || rel.call.outcomeUnknown {
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
	case ended && (err != nil || how == renewal.Renewed): // else the watchdog puts it back
		return countsRemain, nil
	case counts && err == nil && how == renewal.Renewed:
		return staleRequest, nil
	}
	return code, err
}

// releasePendingText is the tombstone of a hold that is about to be released.
const releasePendingText = releasedText + " here"

// blockRestore lays a tombstone before the hold is released, if a request of unknown outcome that has put
// it back on a new master may still come: it would put it back once more, for nobody. Another
// tombstone does as much, and says how the hold has ended.
func (rel *releaseRequest) blockRestore(until time.Time) error {
	h, s := rel.hold, rel.service
	h.carrier.mu.Lock()
	left := time.Until(h.readExtra().restorePendingUntil)
	h.carrier.mu.Unlock()
	if left <= 0 || rel.keepsCounts || rel.restoreBlocked {
		return nil
	}
	n, err := s.askInt(rel.blockRestoreCall(left), until)
	rel.restoreBlocked = n == 1
	return err
}

// unblockRestore takes the tombstone away again: the hold goes on. It waits for Redis; what it cannot do by
// its deadline is left to time.
func (rel *releaseRequest) unblockRestore() {
	if _, err := rel.service.askInt(rel.blockRestoreCall(0), rel.service.deadline()); err == nil {
		rel.restoreBlocked = false
	}
}

// blockRestoreCall is the request to lay a tombstone for so long; zero takes it away.
func (rel *releaseRequest) blockRestoreCall(lasts time.Duration) *scriptCall {
	h := rel.hold
	return &scriptCall{
		script: tombstoneScript, db: int(h.db), keys: []string{tombstoneKey(h.key(), h.token, h.carrier.name)}, args: scriptArgs(releasePendingText, lasts.Milliseconds()),
	}
}
