package lockcmd

import (
	"time"

	"leash/renewal"
)

// reasonMaxHold is the reason for the loss of a hold that was held for as long as MAXHOLD allows.
const reasonMaxHold = "maxhold"

const (
	// losses that a connection is to be told of; with one more it is closed
	maxUnreportedLosses = 1024
	maxLosses           = 1024        // losses that wait to be logged
	logTimeout          = time.Second // how long Run waits for the log in the end
)

// reasonQuorum is why a hold is lost that was taken together with others, of which too few remain.
const reasonQuorum = "quorum"

// loss is a hold that was lost, as the log shows it.
type loss struct {
	hold   *hold
	reason string
	client string
}

// lose moves h, which is held, to a new state and tells its owner of the loss: by the end of its
// connection, or with ONLOSS ERROR by the answer to its next LOCK command for the key (R27). ok is
// false when h is not held any more.
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
	closes := f.reported && (!h.errorOnLoss || len(c.unreportedLosses) >= maxUnreportedLosses)
	if f.reported && !closes {
		c.unreportedLosses = append(c.unreportedLosses, unreportedLoss{h.lock(), h.owner(), h.token, reason})
	}
	c.mu.Unlock()
	if f.reported {
		h.push(lostNotice, h.token)
	}
	switch {
	case closes:
		c.host.Lost([]byte(h.key()), reason)
	case f.reported:
		c.service.awaitSuccessor(h)
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

// recordLoss counts a loss whose owner has been told, and lets it be logged. It does not block: the
// losses of other holds must be told in time, however slow the log is.
func (s *Service) recordLoss(h *hold, reason string) {
	s.stats.lost(reason)
	select {
	case s.losses <- loss{h, reason, h.carrier.host.Client()}:
	default:
		s.stats.unlogged.Add(1)
	}
}

// resolveMissing settles a hold, whose gate is ours, that Redis does not have: its owner has ended or moved
// it by another way, its lease is over, or it is lost, for the reason returned. The error is that
// of not knowing.
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

// replyAbsent is the answer when there is no such hold in Redis: it was lost, if this connection
// believed in it.
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
