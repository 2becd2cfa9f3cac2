package lockcmd

import (
	"time"

	"leash/internal/guard"
	"leash/lockcmd/hold"
)

// releaseAtMaxHold releases holds of one carrier that is gone when their MAXHOLD is over, if they
// would expire later. Their owners do not rely on them any more, and their client has agreed to it
// (R28). None is released before notBefore. A hold that its owner moved has another carrier and
// stays. A LEASE ends with MAXHOLD anyway, see hold.CapLease.
func (s *Service) releaseAtMaxHold(holds []*hold.Hold, notBefore time.Time) {
	now, carrier := time.Now(), holds[0].Carrier.Detached()
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

// maxHoldOf returns the longest time for which locks may be held together. Zero means no limit.
func (s *Service) maxHoldOf(keys []string) time.Duration {
	most := time.Duration(s.maxHold.Load())
	if s.cfg.MaxHoldOf == nil {
		return most
	}
	for _, key := range keys {
		if limit := s.cfg.MaxHoldOf(key); limit > 0 && (most == 0 || limit < most) {
			most = limit
		}
	}
	return most
}
