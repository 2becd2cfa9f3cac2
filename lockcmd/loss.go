package lockcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
	"leash/lockcmd/script"
	"leash/proxy/resp"
	"leash/renewal"
)

// resolveMissing settles a hold that Redis does not have, with its requests locked by the caller.
// If it is lost, lost is the reason. An error means that nobody knows.
func (s *Service) resolveMissing(h *hold.Hold, until time.Time) (lost string, err error) {
	how, err := s.readTombstone(h, until)
	safe := h.SafeUntil()
	if err == nil && how == renewal.Gone && !h.LeaseOverAt(safe) {
		how, err = s.restore(h, until)
	}
	switch {
	case err != nil:
		return "", err
	case how == renewal.Renewed:
		return "", errRestored
	}
	return h.SettleMissing(how, safe), nil
}

// replyAbsent answers when Redis has no such hold. It was lost if this connection had it.
func (c *Carrier) replyAbsent(dst []byte, key string, o options, until time.Time) []byte {
	h := c.ownHold(key, o)
	if h == nil {
		return appendError(dst, msgNotHeld)
	}
	if !h.LockRequests(until) {
		return c.timeout(dst, msgRefused)
	}
	defer h.UnlockRequests()
	switch lost, err := c.service.resolveMissing(h, until); {
	case err != nil:
		return c.timeout(dst, msgRefused)
	case lost != "":
		return appendError(dst, c.lossText(h, lost))
	}
	return appendError(dst, msgNotHeld)
}

// lossText is the error that tells the client of the loss of h.
func (c *Carrier) lossText(h *hold.Hold, reason string) string {
	c.ForgetLoss(h)
	return msgLost(h.Key(), reason)
}

// takeUnreportedLoss returns and removes an unreported loss of one of the command's keys, to be the
// reply. If the TOKEN or OWNER of the command names another hold, the command runs instead.
// Otherwise the reply would be taken for the end of that hold.
func (c *Carrier) takeUnreportedLoss(verb []byte, args [][]byte) (key, reason string, ok bool) {
	if len(args) == 0 || !c.HasUnreportedLoss() {
		return "", "", false
	}
	if !bytes.HasPrefix(verb, []byte("LOCK.")) || string(verb) == notifyName {
		return "", "", false
	}
	keys, options := args[:1], args[1:]
	if bytes.HasPrefix(verb, []byte("LOCK.M")) {
		n, _ := resp.ParseInt(args[0])
		end := max(1, min(n+1, int64(len(args))))
		keys, options = args[1:end], args[end:]
	}
	owner := ownerNamed(options)
	for i, k := range keys {
		lock := c.id(string(k))
		if reason, ok = c.TakeUnreportedLoss(lock, tokenNamed(options, i, len(keys)), owner); ok {
			return lock.Key, reason, true
		}
	}
	return "", "", false
}

// tokenNamed is the token for one of the keys, by TOKEN or TOKENS; 0 for none.
func tokenNamed(options [][]byte, key, keys int) (token int64) {
	for i, arg := range options {
		at := i + 1
		if bytes.EqualFold(arg, []byte("TOKENS")) {
			at += key
		} else if keys > 1 || !bytes.EqualFold(arg, []byte("TOKEN")) {
			continue
		}
		if at < len(options) {
			token, _ = resp.ParseInt(options[at])
		}
	}
	return token
}

// ownerNamed is the OWNER in the options; "" for none.
func ownerNamed(options [][]byte) (owner string) {
	for i, arg := range options {
		if bytes.EqualFold(arg, []byte("OWNER")) && i+1 < len(options) {
			owner = string(options[i+1])
		}
	}
	return owner
}

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
