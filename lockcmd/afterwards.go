package lockcmd

import (
	"time"

	"leash/internal/guard"
	"leash/lockcmd/hold"
)

// afterwards does what follows from changes of holds. It implements hold.Service.
type afterwards struct{ *Service }

// Lost implements hold.Service.
func (s afterwards) Lost(h *hold.Hold, reason string) {
	s.recorder.Lost(h, reason)
}

// Spawn implements hold.Service.
func (s afterwards) Spawn(f func()) bool { return s.tasks.Spawn(f) }

// Follow implements hold.Service.
func (s afterwards) Follow(changes []hold.Change) (released <-chan struct{}) {
	var left []*hold.Hold
	var releases []hold.Change
	for i := range changes {
		ch, h := &changes[i], changes[i].Hold
		if ch.Tombstone != "" {
			s.Releaser.WriteTombstone(h, ch.Tombstone)
		}
		if ch.Over() {
			s.recorder.Ended(ch)
		}
		if ch.Has(hold.CheckLimits) {
			s.tasks.Spawn(func() { s.Releaser.ObeyBreak(h) })
		}
		if ch.Has(hold.LeaveToExpire) {
			left = append(left, h)
		}
		if ch.Has(hold.StartRelease) {
			releases = append(releases, *ch)
		}
	}
	if len(left) > 0 {
		s.releaseAtMaxHold(left)
	}
	if len(releases) > 0 {
		released = s.Releaser.EndAll(releases)
	}
	return released
}

// granted does what follows from a grant.
func (s *Service) granted(h *hold.Hold, waited time.Duration) {
	s.recorder.Granted(h, waited)
	s.checkWanted(h)
}

// releaseAtMaxHold releases holds of one carrier that is gone when their MAXHOLD is over, if they
// would expire later. Their owners do not rely on them any more, and their client has agreed to it
// (R28). None is released while Redis may still run a command of the carrier (R16). A hold that its
// owner moved has another carrier and stays. A LEASE ends with MAXHOLD anyway, see hold.CapLease.
func (s *Service) releaseAtMaxHold(holds []*hold.Hold) {
	now, notBefore, carrier := time.Now(), holds[0].Carrier.UnsureUntil(), holds[0].Carrier.Detached()
	for _, h := range holds {
		d := h.Details()
		at := d.MaxHoldEnd
		if at.IsZero() || d.Terms.Lease {
			continue
		}
		if at.Before(notBefore) {
			at = notBefore
		}
		if at.Before(now.Add(d.TTL)) {
			kept := h.Copy(carrier) // it does not keep the connection in memory
			time.AfterFunc(at.Sub(now), guard.Func(s.log, "MAXHOLD", func() { kept.Apply(hold.ClosedToRelease) }))
		}
	}
}
