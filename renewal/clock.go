package renewal

import "time"

// moment is a time of the monotonic clock, as passed since the Watchdog was made: a third of the
// size of a time.Time.
type moment = time.Duration

func (w *Watchdog) now() moment { return time.Since(w.start) }

// moment is when t comes, or the start if that is later.
func (w *Watchdog) moment(t time.Time) moment { return max(w.now()+Left(t), 0) }

// Left is for how long a hold is still safe that is safe until then. A machine that was suspended
// since has not counted that time by the monotonic clock, but by the other one (R31).
func Left(until time.Time) time.Duration {
	now := time.Now()
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// clockAheadSince is by how much the wall clock has run ahead of the monotonic one since then: for so
// long the machine slept, or somebody set the clock.
func clockAheadSince(start time.Time) time.Duration {
	now := time.Now()
	return now.Round(0).Sub(start.Round(0)) - now.Sub(start)
}

// compareClocks finds out about a suspend: the time slept through has passed for the store (R31). A
// wall clock set back is none.
func (w *Watchdog) compareClocks() {
	w.mu.Lock()
	ahead := w.clockAhead()
	slept := ahead - w.suspended
	w.suspended = ahead
	var lost []*Hold
	if slept >= 10*time.Millisecond {
		for _, g := range w.groups {
			lost = append(lost, g.subtractSuspend(slept, w.now())...)
			w.updateQueue(g)
		}
	}
	w.mu.Unlock()
	for _, h := range lost {
		h.Keeper.Lost(ReasonSuspended)
	}
}

// subtractSuspend takes the time slept through from the group's holds. Those that were to be renewed
// meanwhile are lost: all of them, or none; but no lease that was over before.
func (g *group) subtractSuspend(slept time.Duration, now moment) (lost []*Hold) {
	long := slept > g.ttl/3
	for h := range g.all() {
		if long && (!g.lease || h.until > now) {
			lost = append(lost, h)
		}
		h.until -= slept
	}
	g.deadline -= slept
	for _, h := range lost {
		g.remove(h)
	}
	return lost
}
