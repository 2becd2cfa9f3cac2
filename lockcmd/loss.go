package lockcmd

import "time"

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
