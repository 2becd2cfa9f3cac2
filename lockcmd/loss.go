package lockcmd

import (
	"time"

	"leash/renewal"
)

// reasonMaxHold is the reason for the loss of a hold that was held for as long as MAXHOLD allows.
const reasonMaxHold = "maxhold"

const (
	// losses that a connection is to be told of; with one more it is closed
	maxUntold   = 1024
	maxLosses   = 1024        // losses that wait to be logged
	logPatience = time.Second // how long Run waits for the log in the end
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
	if from != held && from != lessening {
		c.mu.Unlock()
		return from, false
	}
	if h.state, h.evicted = to, to == releasing; to == over {
		c.dropLocked(h)
	}
	f := fall{told: true}
	if b := h.rare().bundle; b != nil {
		f = b.fallLocked(h, to == releasing)
	}
	closes := f.told && (!h.answers || len(c.lost) >= maxUntold)
	if f.told && !closes {
		c.lost = append(c.lost, fallen{h.lock(), h.owner(), h.token, reason})
	}
	c.mu.Unlock()
	if f.told {
		h.say(lostNotice, h.token)
	}
	switch {
	case closes:
		c.host.Lost([]byte(h.key()), reason)
	case f.told:
		c.service.bereave(h)
	}
	if !f.secret {
		c.service.report(h, reason)
	}
	h.tellEnd(reason)
	for _, other := range f.rest {
		other.evict(reasonQuorum)
	}
	return from, true
}

// report counts a loss whose owner has been told, and lets it be logged. It does not block: the
// losses of other holds must be told in time, however slow the log is.
func (s *Service) report(h *hold, reason string) {
	s.stats.lost(reason)
	select {
	case s.losses <- loss{h, reason, h.carrier.host.Client()}:
	default:
		s.stats.unlogged.Add(1)
	}
}

// fate settles a hold, whose gate is ours, that Redis does not have: its owner has ended or moved
// it by another way, its lease is over, or it is lost, for the reason returned. The error is that
// of not knowing.
func (h *hold) fate(until time.Time) (lost string, err error) {
	s := h.carrier.service
	how, err := s.tombstone(h, until)
	switch {
	case err != nil:
		return "", err
	case rightful(how):
		h.Ended(how)
		return "", nil
	case h.leaseOver(s.watchdog.Until(&h.watch)):
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
	h := c.mine(key, o)
	if h == nil {
		return appendError(dst, msgNotHeld)
	}
	if !h.open(until) {
		return c.timeout(dst, msgRefused)
	}
	defer h.close()
	switch lost, err := h.fate(until); {
	case err != nil:
		return c.timeout(dst, msgRefused)
	case lost != "":
		c.told(h)
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
		case <-s.quiet:
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
