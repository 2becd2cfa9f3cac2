package restore

import (
	"context"
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
	ctx, cancel := context.WithDeadline(context.Background(), r.Redis.CapAtStop(until))
	defer cancel()
	if how := r.meaning(ctx, h, text); how != renewal.Unknown {
		return how, nil
	}
	return renewal.Unknown, transport.ErrRefused
}

// meaning is what a tombstone says of h, which is missing.
func (r *Restorer) meaning(ctx context.Context, h *hold.Hold, text string) renewal.Outcome {
	return event.Outcome(ctx, r.Redis, h.Ref(), text, h.LeaseOver())
}

// explainGone reads the tombstones of holds that are gone. If it cannot, the outcome is unknown.
func (r *Restorer) explainGone(ctx context.Context, batches []renewal.Batch, out [][]renewal.Outcome) {
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
	texts, errs := r.Redis.Tombstones(ctx, refs)
	for i, g := range all {
		if *g.outcome = renewal.Unknown; errs[i] == nil {
			*g.outcome = r.meaning(ctx, g.hold, texts[i])
		}
	}
}
