package lockcmd

import (
	"time"

	"leash/renewal"
)

// reasonMaxHold is the reason for a loss at the end of MAXHOLD.
const reasonMaxHold = "maxhold"

// maxUnreportedLosses is how many losses wait to be reported to a connection. With one more it is
// closed.
const maxUnreportedLosses = 1024

// reasonQuorum is the reason for the loss of a hold of a MACQUIRE when too few of its holds remain.
const reasonQuorum = "quorum"

// lossReport is what follows from the loss of a hold.
type lossReport struct {
	hold     *hold
	reason   string
	reported bool // the owner must be told
	closes   bool // that ends the connection
	unknown  bool // nobody knew of the hold
	// holds of its group that are useless without it; they are ended after the owner was told
	remaining []*hold
}

// noteLossLocked decides what the owner of h is told. The loss ends the connection, or with ONLOSS
// ERROR it is the reply to the next LOCK command for the key.
func (h *hold) noteLossLocked(reason string, evicted bool) *lossReport {
	c, r := h.carrier, lossReport{reported: true}
	if b := h.readExtra().group; b != nil {
		r = b.loseLocked(h, evicted)
	}
	r.hold, r.reason = h, reason
	switch {
	case !r.reported:
	case !h.ErrorOnLoss || len(c.unreportedLosses) >= maxUnreportedLosses:
		r.closes, c.closingLoss = true, &r
	default:
		c.unreportedLosses = append(c.unreportedLosses, unreportedLoss{h.lock(), h.owner(), h.token, reason})
	}
	return &r
}

// tell tells the owner of the loss (R27).
func (r *lossReport) tell() {
	h, c := r.hold, r.hold.carrier
	if r.reported {
		h.push(lostNotice)
	}
	if r.closes {
		c.host.End([]byte(h.key()), r.reason)
		c.mu.Lock()
		if c.closingLoss == r {
			c.closingLoss = nil
		}
		c.mu.Unlock()
	}
	if !r.unknown {
		c.service.recordLoss(h, r.reason)
	}
	for _, other := range r.remaining {
		other.evict(reasonQuorum)
	}
}

// recordLoss counts a loss that was reported, and queues it for the log. It does not block: a slow
// log must not delay the reports of other losses.
func (s *Service) recordLoss(h *hold, reason string) {
	s.stats.lost(reason)
	s.observeLoss(h, reason)
	if !s.losses.add(loss{h, reason, h.carrier.clientName()}) {
		s.stats.unlogged.Add(1)
	}
}

// resolveMissing settles a hold that Redis does not have, with its requests locked by the caller.
// If it is lost, lost is the reason. An error means that nobody knows.
func (h *hold) resolveMissing(until time.Time) (lost string, err error) {
	s := h.carrier.service
	how, err := s.readTombstone(h, until)
	safe := s.watchdog.Until(&h.watch)
	if err == nil && how == renewal.Gone && !h.leaseOverAt(safe) {
		how, err = s.restore(h, until)
	}
	switch {
	case err != nil:
		return "", err
	case how == renewal.Renewed:
		return "", errRestored
	}
	return h.settleMissing(how, safe), nil
}

// settleMissing settles a hold that Redis does not have. how says why, and it was safe until that
// time. Its owner ended or moved it by another way, its lease is over, or it is lost. Then lost is
// the reason.
func (h *hold) settleMissing(how renewal.Outcome, safe time.Time) (lost string) {
	switch {
	case endedByOwner(how):
		h.Ended(how)
		return ""
	case h.leaseOverAt(safe):
		h.Ended(renewal.Expired)
		return ""
	case how == renewal.Broken:
		lost = renewal.ReasonBroken
	default:
		lost = renewal.ReasonGone
	}
	h.apply(notFound, lost)
	return lost
}

// replyAbsent answers when Redis has no such hold. It was lost if this connection had it.
func (c *Carrier) replyAbsent(dst []byte, key string, o options, until time.Time) []byte {
	h := c.ownHold(key, o)
	if h == nil {
		return appendError(dst, msgNotHeld)
	}
	if !h.lockRequests(until) {
		return c.timeout(dst, msgRefused)
	}
	defer h.unlockRequests()
	switch lost, err := h.resolveMissing(until); {
	case err != nil:
		return c.timeout(dst, msgRefused)
	case lost != "":
		return appendError(dst, c.lossText(h, lost))
	}
	return appendError(dst, msgNotHeld)
}
