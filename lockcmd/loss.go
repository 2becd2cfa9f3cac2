package lockcmd

import (
	"time"

	"leash/renewal"
)

// reasonMaxHold is the reason for a loss at the end of MAXHOLD.
const reasonMaxHold = "maxhold"

const (
	// losses to be reported to a connection; with one more it is closed
	maxUnreportedLosses = 1024
	maxLosses           = 1024        // losses that wait to be logged
	logTimeout          = time.Second // how long Run waits for the log at its end
)

// reasonQuorum is the reason for the loss of a hold of a MACQUIRE when too few of its holds remain.
const reasonQuorum = "quorum"

// loss is a lost hold in the form for the log.
type loss struct {
	hold   *hold
	reason string
	client string
}

// lose moves h, which is held, to a new state and tells its owner of the loss (R27). It ends the
// connection, or with ONLOSS ERROR makes the loss the reply to the next LOCK command for the key.
// ok is false when h is not held any more.
func (h *hold) lose(to state, reason string) (from state, ok bool) {
	c := h.carrier
	c.mu.Lock()
	from = h.state
	if from != held && from != decrementing {
		c.mu.Unlock()
		return from, false
	}
	if h.state, h.evicted = to, to == releasing; to == over {
		c.removeHoldLocked(h)
	}
	f := groupLoss{reported: true}
	if b := h.readExtra().group; b != nil {
		f = b.loseLocked(h, to == releasing)
	}
	closes := f.reported && (!h.ErrorOnLoss || len(c.unreportedLosses) >= maxUnreportedLosses)
	if f.reported && !closes {
		c.unreportedLosses = append(c.unreportedLosses, unreportedLoss{h.lock(), h.owner(), h.token, reason})
	}
	c.mu.Unlock()
	if f.reported {
		h.push(lostNotice)
	}
	if closes {
		c.host.Lost([]byte(h.key()), reason)
	}
	if !f.unreported {
		c.service.recordLoss(h, reason)
	}
	h.reportEnd(reason)
	for _, other := range f.remaining {
		other.evict(reasonQuorum)
	}
	return from, true
}

// recordLoss counts a loss that was reported, and queues it for the log. It does not block: a slow
// log must not delay the reports of other losses.
func (s *Service) recordLoss(h *hold, reason string) {
	s.stats.lost(reason)
	select {
	case s.losses <- loss{h, reason, h.carrier.host.Client()}:
	default:
		s.stats.unlogged.Add(1)
	}
}

// resolveMissing settles a hold that Redis does not have, with its requests locked by the caller.
// Its owner ended or moved it by another way, its lease is over, or it is lost. Then lost is the
// reason. An error means that nobody knows.
func (h *hold) resolveMissing(until time.Time) (lost string, err error) {
	s := h.carrier.service
	how, err := s.readTombstone(h, until)
	switch {
	case err != nil:
		return "", err
	case endedByOwner(how):
		h.Ended(how)
		return "", nil
	case h.leaseOverAt(s.watchdog.Until(&h.watch)):
		h.Ended(renewal.Expired)
		return "", nil
	}
	lost = renewal.ReasonBroken
	if how != renewal.Broken {
		lost = renewal.ReasonGone
		switch how, err := s.restore(h, until); {
		case err != nil:
			return "", err
		case how == renewal.Renewed:
			return "", errRestored
		case how == renewal.Moved:
			h.Ended(how)
			return "", nil
		}
	}
	h.Lost(lost)
	return lost, nil
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
		c.markLossReported(h)
		return appendError(dst, msgLost(key, lost))
	}
	return appendError(dst, msgNotHeld)
}

// logLosses writes losses to the log until there are no more.
func (s *Service) logLosses() {
	for {
		select {
		case l := <-s.losses:
			s.logLoss(l)
			continue
		case <-s.lossesDone:
		}
		for {
			select {
			case l := <-s.losses:
				s.logLoss(l)
			default:
				return
			}
		}
	}
}

func (s *Service) logLoss(l loss) {
	h := l.hold
	s.log.Warn("lock lost", "key", h.key(), "db", int(h.db), "owner", h.owner(), "token", h.token, "reason", l.reason, "client", l.client)
}
