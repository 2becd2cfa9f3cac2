package lockcmd

import (
	"time"

	"leash/lockcmd/event"
	"leash/lockcmd/hold"
)

// afterwards does what follows from changes of holds. It implements hold.Service.
type afterwards struct{ *Service }

// Lost implements hold.Service.
func (s afterwards) Lost(h *hold.Hold, reason string) {
	s.stats.lost(reason)
	s.observeLoss(h, reason)
}

// Spawn implements hold.Service.
func (s afterwards) Spawn(f func()) bool { return s.spawn(f) }

// Follow implements hold.Service.
func (s afterwards) Follow(unsure time.Time, changes []hold.Change) (released <-chan struct{}) {
	var left []*hold.Hold
	var releases []*releaseRequest
	for i := range changes {
		ch, h := &changes[i], changes[i].Hold
		if ch.Tombstone != "" {
			s.writeTombstone(h, ch.Tombstone)
		}
		if ch.Over() {
			s.observeEnd(ch)
		}
		if ch.Has(hold.CheckLimits) {
			s.spawn(func() { s.obeyBreak(h) })
		}
		if ch.Has(hold.LeaveToExpire) {
			left = append(left, h)
		}
		if ch.Has(hold.StartRelease) {
			releases = append(releases, &releaseRequest{service: s.Service, hold: h, all: true, until: ch.Until})
		}
	}
	if len(left) > 0 {
		s.releaseAtMaxHold(left, unsure)
	}
	if len(releases) > 0 {
		released = s.endAll(releases)
	}
	return released
}

// writeTombstone writes in the background how h ended, for other Leashes. It also wakes them,
// because a hand-over publishes nothing on the lock's channel.
func (s *Service) writeTombstone(h *hold.Hold, text string) {
	keep := 2 * max(h.Details().TTL, s.cfg.WatchdogTimeout)
	s.spawn(func() {
		event.WriteTombstone(s.redis, h.Ref(), text, keep, h.Mode().Channel(h.Key()))
	})
}
