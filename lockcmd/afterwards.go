package lockcmd

import (
	"sync"
	"sync/atomic"
	"time"

	"leash/internal/guard"
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

// endWorkers is how many holds of one connection or one BREAK are ended at the same time.
const endWorkers = 16

// endAll sends releases of holds that nobody relies on, each as soon as the requests of its hold
// are unlocked. done is closed when all have ended.
func (s *Service) endAll(releases []*releaseRequest) (done <-chan struct{}) {
	ended := make(chan struct{})
	s.spawn(func() {
		defer close(ended)
		s.inParallel(len(releases), func(i int) { releases[i].lockAndFinish() })
	})
	return ended
}

// inParallel calls end with every number below n, on up to endWorkers goroutines, and waits for
// them.
func (s *Service) inParallel(n int, end func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(endWorkers, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				_ = guard.Do(s.log, "end of a hold", func() { end(i) })
			}
		})
	}
	workers.Wait()
}

// lockAndFinish waits for the hold's request lock and releases the hold.
func (rel *releaseRequest) lockAndFinish() {
	until := rel.service.deadline()
	if until.Before(rel.until) {
		until = rel.until
	}
	// The request gets its number only now, above that of an undo that had the lock before.
	if rel.hold.LockRequests(until) {
		rel.finish()
	} else {
		rel.hold.Apply(hold.Ended)
	}
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
