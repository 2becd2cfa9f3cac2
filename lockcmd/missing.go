package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/event"
	"leash/lockcmd/script"
	"leash/renewal"
)

// tombstoneTimeout is how long a request waits for the correction of a tombstone before it answers.
func (s *Service) tombstoneTimeout() time.Duration { return min(s.cfg.UpstreamTimeout, time.Second) }

// readTombstone returns why a hold of this Leash is missing. A key of another type is no tombstone.
func (s *Service) readTombstone(h *hold, until time.Time) (renewal.Outcome, error) {
	text, err := s.redis.Tombstone(h.ref(), until)
	if errors.Is(err, script.ErrRefused) {
		return renewal.Unknown, fmt.Errorf("tombstone of %q: %w", h.key(), err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.redis.CapAtStop(until))
	defer cancel()
	how := s.tombstoneOutcome(ctx, h, text)
	if how == renewal.Unknown {
		return how, fmt.Errorf("tombstone of %q: %w", h.key(), script.ErrRefused)
	}
	return how, nil
}

// tombstoneOutcome is the meaning of a tombstone for h, which is missing.
func (s *Service) tombstoneOutcome(ctx context.Context, h *hold, text string) renewal.Outcome {
	return event.Outcome(ctx, s.redis, h.ref(), text, h.leaseOver())
}

// endedByOwner reports whether the owner wanted the hold to end on this Leash.
func endedByOwner(how renewal.Outcome) bool {
	return how == renewal.Released || how == renewal.Moved || how == renewal.Repeated || how == renewal.Expired
}

// explainGone reads the tombstones of holds that are gone. If it cannot, the outcome is unknown.
func (s *store) explainGone(ctx context.Context, batches []renewal.Batch, out [][]renewal.Outcome) {
	if !slices.ContainsFunc(out, func(outcomes []renewal.Outcome) bool {
		return slices.Contains(outcomes, renewal.Gone)
	}) {
		return // the usual case
	}
	type position struct{ batch, hold int }
	var positions []position
	var cmds []*redis.StringCmd
	pipe := s.redis.Database(batches[0].DB).Pipeline()
	for i, outcomes := range out {
		for j, o := range outcomes {
			if o != renewal.Gone {
				continue
			}
			h := batches[i].Holds[j].Keeper.(*hold)
			positions = append(positions, position{i, j})
			cmds = append(cmds, pipe.Get(ctx, script.TombstoneKey(h.key(), h.token, h.carrier.name)))
		}
	}
	pipe.Exec(ctx)
	for i, p := range positions {
		text, err := cmds[i].Result()
		var answer redis.Error
		switch {
		case err == nil, errors.Is(err, redis.Nil):
			out[p.batch][p.hold] = s.tombstoneOutcome(ctx, batches[p.batch].Holds[p.hold].Keeper.(*hold), text)
		case errors.As(err, &answer) && script.Judge(err) == script.Answered:
			// It is no string, so no tombstone of ours.
		default:
			out[p.batch][p.hold] = renewal.Unknown
		}
	}
}
