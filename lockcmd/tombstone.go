package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"leash/lockcmd/script"
	"leash/renewal"
)

// A tombstone tells the carrier of a hold why the hold is gone, when somebody else ended, moved or
// changed it. Its text is one of these:
//
//	released        The owner released it.
//	released here   This Leash is about to release it.
//	released <ids>  The owner releases it with one key a call, in these requests.
//	left            It will expire: its connection has ended. For AWAITLOSS on other Leashes.
//	moved <to>      An ATTACH moved it to that carrier. The old connection is closed (R25).
//	repeated <to>   A repeated ACQUIRE moved it to that carrier. The old connection stays open.
//	broken          A BREAK has marked it. Its Leash will report how it ended.
//	broken forced   A BREAK has ended it without its Leash.
//	lost <reason>   It was lost. For AWAITLOSS and BREAK on other Leashes.
//	extended <ms>   Its lease was set. It is over when the tombstone has only that many ms left.
//
// After "moved" and "repeated", the word "perhaps" means that the outcome is not known. Whoever
// ends the hold in that time overwrites it.
const (
	releasedText = "released"
	leftText     = "left"
	movedText    = "moved"
	repeatedText = "repeated"
	brokenText   = "broken"
	extendedText = "extended"
	lostText     = "lost"
)

// forcedText is the whole tombstone of a hold that BREAK ended without its Leash.
const forcedText = brokenText + " forced"

// perhapsSuffix ends the tombstone of a move whose outcome is unknown.
const perhapsSuffix = " perhaps"

// tombstoneTimeout is how long a request waits for the correction of a tombstone before it answers.
func (s *Service) tombstoneTimeout() time.Duration { return min(s.cfg.UpstreamTimeout, time.Second) }

// watchedEvent tells a carrier's Leash that somebody on another Leash waits for the loss of its
// hold and will read a tombstone.
const watchedEvent = "watched"

// wantedEvent tells a carrier's Leash that somebody on another Leash waits for the lock.
const wantedEvent = "wanted"

// decrementedEvent tells a carrier's Leash that counts of its hold were released by another way,
// and that some remain.
const decrementedEvent = "lessened"

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

// endedByOwner reports whether the owner wanted the hold to end on this Leash.
func endedByOwner(how renewal.Outcome) bool {
	return how == renewal.Released || how == renewal.Moved || how == renewal.Repeated || how == renewal.Expired
}

// tombstoneOutcome is the meaning of a tombstone for h, which is missing.
func (s *Service) tombstoneOutcome(ctx context.Context, h *hold, text string) renewal.Outcome {
	how, more, _ := strings.Cut(text, " ")
	switch how {
	case releasedText:
		return renewal.Released
	case movedText:
		return renewal.Moved
	case repeatedText:
		return renewal.Repeated
	case brokenText:
		return renewal.Broken
	case lostText:
		if more == renewal.ReasonBroken {
			return renewal.Broken
		}
	case extendedText:
		if h.leaseOver() {
			return renewal.Expired
		}
		return s.leaseOutcome(ctx, h.ref(), more)
	}
	return renewal.Gone
}

// tombstoneSlack is how much later than the lease a script may have written its tombstone, because
// Redis's clock runs on within a script.
const tombstoneSlack = 50 * time.Millisecond

// leaseOutcome reports whether a lease that was extended is over. Its tombstone lives keep ms
// longer.
func (s *Service) leaseOutcome(ctx context.Context, ref script.Ref, keep string) renewal.Outcome {
	ms, err := strconv.ParseInt(keep, 10, 64)
	if err != nil {
		return renewal.Gone
	}
	left, err := s.redis.TombstoneLeft(ctx, ref)
	switch {
	case err != nil:
		return renewal.Unknown
	case left <= script.Millis(ms)+tombstoneSlack:
		return renewal.Expired
	}
	return renewal.Gone
}

// explainGone reads the tombstones of holds that are gone. If it cannot, the outcome is unknown.
func (s *store) explainGone(ctx context.Context, batches []renewal.Batch, out [][]renewal.Outcome) {
	if !slices.ContainsFunc(out, func(outcomes []renewal.Outcome) bool { return slices.Contains(outcomes, renewal.Gone) }) {
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
