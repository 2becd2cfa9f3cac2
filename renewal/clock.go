package renewal

import "time"

// moment is a time of the monotonic clock, counted from when the Watchdog was made. It has a third
// of the size of a time.Time.
type moment = time.Duration

func (w *Watchdog) now() moment { return time.Since(w.start) }

// moment is t as a moment, but not earlier than the start.
func (w *Watchdog) moment(t time.Time) moment { return max(w.now()+Left(t), 0) }

// Left is the time from now to until. If the machine was suspended since until was set, the wall
// clock has counted that time and the monotonic clock has not. So the shorter time counts (R31).
func Left(until time.Time) time.Duration {
	now := time.Now()
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// clockAheadSince is by how much the wall clock has run ahead of the monotonic clock since start.
// The machine was suspended for that long, or somebody has set the clock.
func clockAheadSince(start time.Time) time.Duration {
	now := time.Now()
	return now.Round(0).Sub(start.Round(0)) - now.Sub(start)
}

// compareClocks finds out whether the machine was suspended. That time has passed for the store
// (R31). A wall clock that was set back is no sign of it.
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

// subtractSuspend takes the time of a suspend from Until of the group's holds. If it was longer
// than a third of the TTL, all holds are lost, but for leases that were over before.
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
