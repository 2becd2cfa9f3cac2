package restore

import (
	"errors"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/lockcmd/script/transport"
	"leash/renewal"
)

// SettleMissing settles a hold that Redis does not have, and whose requests the caller has locked.
// If it is lost, lost is the reason. An error is a transport.ErrRefused: nobody knows, or the hold
// was restored. It blocks until Redis answers, at most until that time.
func (r *Restorer) SettleMissing(h *hold.Hold, until time.Time) (lost string, err error) {
	how, err := r.Tombstone(h, until)
	safe := h.SafeUntil()
	if err == nil && how == renewal.Gone && !h.LeaseOverAt(safe) {
		how, err = r.Restore(h, until)
	}
	switch {
	case err != nil:
		return "", err
	case how == renewal.Renewed:
		return "", transport.ErrRefused // the request may be sent again
	}
	return h.SettleMissing(how, safe), nil
}

// Tombstone returns why a hold of this Leash is missing. A key of another type is no tombstone. An
// error is a transport.ErrRefused. It blocks until Redis answers, at most until that time.
func (r *Restorer) Tombstone(h *hold.Hold, until time.Time) (renewal.Outcome, error) {
	text, err := r.Redis.Tombstone(h.Ref(), until)
	if errors.Is(err, transport.ErrRefused) {
		return renewal.Unknown, err
	}
	if how := event.Outcome(r.Redis, h.Ref(), text, h.LeaseOver(), until); how != renewal.Unknown {
		return how, nil
	}
	return renewal.Unknown, transport.ErrRefused
}

// explainGone reads the tombstones of holds that are gone. If it cannot, the outcome is unknown.
func (r *Restorer) explainGone(batches []renewal.Batch, out [][]renewal.Outcome, until time.Time) {
	type gone struct {
		hold    *hold.Hold
		outcome *renewal.Outcome
	}
	var all []gone
	var refs []script.Ref
	for i, outcomes := range out {
		for j := range outcomes {
			if outcomes[j] == renewal.Gone {
				h := (*batchHolds)(&batches[i]).at(j)
				all, refs = append(all, gone{h, &outcomes[j]}), append(refs, h.Ref())
			}
		}
	}
	texts, errs := r.Redis.Tombstones(refs, until)
	for i, g := range all {
		if *g.outcome = renewal.Unknown; errs[i] == nil {
			*g.outcome = event.Outcome(r.Redis, refs[i], texts[i], g.hold.LeaseOver(), until)
		}
	}
}
