package lockcmd

import (
	"time"

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
	var releases []hold.Change
	for i := range changes {
		ch, h := &changes[i], changes[i].Hold
		if ch.Tombstone != "" {
			s.releaser.WriteTombstone(h, ch.Tombstone)
		}
		if ch.Over() {
			s.observeEnd(ch)
		}
		if ch.Has(hold.CheckLimits) {
			s.spawn(func() { s.releaser.ObeyBreak(h) })
		}
		if ch.Has(hold.LeaveToExpire) {
			left = append(left, h)
		}
		if ch.Has(hold.StartRelease) {
			releases = append(releases, *ch)
		}
	}
	if len(left) > 0 {
		s.releaseAtMaxHold(left, unsure)
	}
	if len(releases) > 0 {
		released = s.releaser.EndAll(releases)
	}
	return released
}

// awaitEnd waits until done is closed, at most for hold.EndTimeout. It reports whether it was.
func (s *Service) awaitEnd(done <-chan struct{}) bool {
	timer := time.NewTimer(hold.EndTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-s.redis.Stopped:
	}
	return false
}
