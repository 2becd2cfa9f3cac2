package release

import (
	"time"

	"leash/lockcmd/script"
	"leash/renewal"
)

// repairAnswer checks an answer with another count than this Leash knows. It may come from a new
// master that was not known as new and has an older state of the hold. Then it corrects the state,
// and the answer counts as if the state had been right. script.StaleRequest tells the caller to
// send the release again.
func (rel *request) repairAnswer(code int64, sent, until time.Time) (int64, error) {
	h := rel.hold
	ended, counts := rel.keepsCounts && code == script.HoldEnded,
		!rel.keepsCounts && !rel.all && code == script.CountsRemain
	if rel.Masters == nil || !ended && !counts || rel.outcomeUnknown {
		return code, nil
	}
	if _, ok := rel.Masters.MasterOf(h.Key(), sent, until); !ok || !rel.Masters.NeedsRepair(h.Key(), &h.Watch) {
		return code, nil
	}
	if ended {
		h.Decrement(rel.putBackID)
		rel.decremented = true
	}
	how, err := rel.Restore(h, until)
	switch {
	case ended && (err != nil || how == renewal.Renewed): // otherwise the watchdog restores it
		return script.CountsRemain, nil
	case counts && err == nil && how == renewal.Renewed:
		return script.StaleRequest, nil
	}
	return code, err
}
