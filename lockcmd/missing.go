package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/renewal"
)

// tombstoneTimeout is how long a request waits for the correction of a tombstone before it answers.
func (s *Service) tombstoneTimeout() time.Duration { return min(s.cfg.UpstreamTimeout, time.Second) }

// readTombstone returns why a hold of this Leash is missing. A key of another type is no tombstone.
func (s *Service) readTombstone(h *hold.Hold, until time.Time) (renewal.Outcome, error) {
	text, err := s.redis.Tombstone(h.Ref(), until)
	if errors.Is(err, script.ErrRefused) {
		return renewal.Unknown, fmt.Errorf("tombstone of %q: %w", h.Key(), err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.redis.CapAtStop(until))
	defer cancel()
	how := s.tombstoneOutcome(ctx, h, text)
	if how == renewal.Unknown {
		return how, fmt.Errorf("tombstone of %q: %w", h.Key(), script.ErrRefused)
	}
	return how, nil
}

// tombstoneOutcome is the meaning of a tombstone for h, which is missing.
func (s *Service) tombstoneOutcome(ctx context.Context, h *hold.Hold, text string) renewal.Outcome {
	return event.Outcome(ctx, s.redis, h.Ref(), text, h.LeaseOver())
}

// explainGone reads the tombstones of holds that are gone. If it cannot, the outcome is unknown.
func (s *store) explainGone(ctx context.Context, batches []renewal.Batch, out [][]renewal.Outcome) {
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
	texts, errs := s.redis.Tombstones(ctx, refs)
	for i, g := range all {
		if *g.outcome = renewal.Unknown; errs[i] == nil {
			*g.outcome = s.tombstoneOutcome(ctx, g.hold, texts[i])
		}
	}
}
