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

	"leash/renewal"
)

// A tombstone tells a carrier why a hold of its is not there any more, when another has ended,
// moved or shortened it. It says
//
//	released       by its owner (with "here" behind it: about to be, by this Leash itself; with other words: by requests with one key a call)
//	left           it is still there, and runs out: its connection has ended (for AWAITLOSS on other Leashes)
//	moved <to>     to another carrier, on purpose: this one's connection is closed (R25); with "perhaps" behind it, by requests with one key a call
//	               that are under way: whoever ends the hold meanwhile writes over it
//	repeated <to>  to another carrier, where its owner has only repeated an ACQUIRE: this one's connection stays
//	broken         by BREAK, until the carrier's Leash says how the hold has ended: its owner may be first; with "forced" behind it, past that Leash
//	lost <reason>  for those on other Leashes who wait for it (AWAITLOSS), or have broken it
//	extended <ms>  the lease was set anew, and is over once the tombstone itself has no more than ms left
const (
	releasedText = "released"
	leftText     = "left"
	movedText    = "moved"
	repeatedText = "repeated"
	brokenText   = "broken"
	extendedText = "extended"
	lostText     = "lost"
)

// forcedText is the whole tombstone of a hold that BREAK has ended past its Leash.
const forcedText = brokenText + " forced"

// perhapsSuffix stands behind what a tombstone says of a move whose outcome nobody knows yet.
const perhapsSuffix = " perhaps"

// tombstoneTimeout is for how long Redis may take to have a tombstone put right after a request:
// whoever asked is answered afterwards.
func (s *Service) tombstoneTimeout() time.Duration { return min(s.cfg.UpstreamTimeout, time.Second) }

// watchedEvent is news to a carrier's Leash: somebody on another one waits for the loss of its hold,
// and will look for a tombstone.
const watchedEvent = "watched"

// wantedEvent is news to a carrier's Leash: somebody on another one waits for the lock of its hold.
const wantedEvent = "wanted"

// decrementedEvent is news to a carrier's Leash: counts of its hold were released by another way, and
// some remain.
const decrementedEvent = "lessened"

// readTombstone says why a hold of ours is not there any more. A key that is no string is no tombstone
// of ours.
func (s *Service) readTombstone(h *hold, until time.Time) (renewal.Outcome, error) {
	text, err := s.value(int(h.db), tombstoneKey(h.key(), h.token, h.carrier.name), until)
	if errors.Is(err, errRefused) {
		return renewal.Unknown, fmt.Errorf("tombstone of %q: %w", h.key(), err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), s.capAtStop(until))
	defer cancel()
	how := s.tombstoneOutcome(ctx, h, text)
	if how == renewal.Unknown {
		return how, fmt.Errorf("tombstone of %q: %w", h.key(), errRefused)
	}
	return how, nil
}

// endedByOwner reports whether a hold ended, for this Leash, at its owner's wish.
func endedByOwner(how renewal.Outcome) bool {
	return how == renewal.Released || how == renewal.Moved || how == renewal.Repeated || how == renewal.Expired
}

// tombstoneOutcome is the meaning of a tombstone for h, which is not there any more.
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
		return s.leaseOutcome(ctx, int(h.db), tombstoneKey(h.key(), h.token, h.carrier.name), more)
	}
	return renewal.Gone
}

// tombstoneSlack is how much later than the lease its tombstone may have been laid: Redis's clock goes on
// within a script.
const tombstoneSlack = 50 * time.Millisecond

// leaseOutcome reports whether a lease that was set anew is over by itself: its tombstone lives on for
// keep, in ms.
func (s *Service) leaseOutcome(ctx context.Context, db int, tombstone, keep string) renewal.Outcome {
	ms, err := strconv.ParseInt(keep, 10, 64)
	if err != nil {
		return renewal.Gone
	}
	left, err := s.database(db).PTTL(ctx, tombstone).Result()
	switch {
	case err != nil:
		return renewal.Unknown
	case left <= millis(ms)+tombstoneSlack:
		return renewal.Expired
	}
	return renewal.Gone
}

// explainGone looks for the tombstones of holds that are gone. While it cannot, nothing is known of
// them.
func (s *store) explainGone(ctx context.Context, batches []renewal.Batch, out [][]renewal.Outcome) {
	if !slices.ContainsFunc(out, func(outcomes []renewal.Outcome) bool { return slices.Contains(outcomes, renewal.Gone) }) {
		return // as nearly always
	}
	type position struct{ batch, hold int }
	var positions []position
	var cmds []*redis.StringCmd
	pipe := s.database(batches[0].DB).Pipeline()
	for i, outcomes := range out {
		for j, o := range outcomes {
			if o != renewal.Gone {
				continue
			}
			h := batches[i].Holds[j].Keeper.(*hold)
			positions = append(positions, position{i, j})
			cmds = append(cmds, pipe.Get(ctx, tombstoneKey(h.key(), h.token, h.carrier.name)))
		}
	}
	pipe.Exec(ctx)
	for i, p := range positions {
		text, err := cmds[i].Result()
		var answer redis.Error
		switch {
		case err == nil, errors.Is(err, redis.Nil):
			out[p.batch][p.hold] = s.tombstoneOutcome(ctx, batches[p.batch].Holds[p.hold].Keeper.(*hold), text)
		case errors.As(err, &answer) && judge(err) == answered:
			// not a string: no tombstone of ours
		default:
			out[p.batch][p.hold] = renewal.Unknown
		}
	}
}
