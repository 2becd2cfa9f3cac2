package lockcmd

import (
	"time"

	"leash/renewal"
)

const (
	maxLosses   = 1024        // losses that wait to be logged
	logPatience = time.Second // how long Run waits for the log in the end
)

// loss is a hold that was lost, as the log shows it.
type loss struct {
	hold   *hold
	reason string
	client string
}

// report counts a loss whose owner has been told, and lets it be logged. It does not block: the losses of other holds must be told in
// time, however slow the log is.
func (s *Service) report(h *hold, reason string) {
	s.stats.lost(reason)
	select {
	case s.losses <- loss{h, reason, h.carrier.host.Client()}:
	default:
		s.stats.unlogged.Add(1)
	}
}

// fate settles a hold, whose gate is ours, that Redis does not have: its owner has ended or moved it by another way, its lease is over,
// or it is lost, for the reason returned. The error is that of not knowing.
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
	lost = renewal.ReasonGone
	if how == renewal.Broken {
		lost = renewal.ReasonBroken
	}
	h.Lost(lost)
	return lost, nil
}

// replyAbsent is the answer when there is no such hold in Redis: it was lost, if this connection believed in it.
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
	s.log.Warn("lock lost", "key", h.id.key, "db", h.id.db, "owner", h.owner, "token", h.token, "reason", l.reason, "client", l.client)
}
