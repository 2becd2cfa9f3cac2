package renewal

import (
	"container/heap"
	"time"
)

// plan returns which groups are due, which keepers to call, and the time until the next step.
func (w *Watchdog) plan(now moment) (due []*group, tell []func(), pause time.Duration) {
	due = w.due[:0]
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 && w.queue[0].wake <= now {
		g := w.queue[0].group
		if g.deadline <= now {
			tell = append(tell, w.expire(g, now)...)
		}
		if !g.busy && g.due <= now {
			g.busy = true
			due = append(due, g)
		}
		w.updateQueue(g)
	}
	due = w.addUpcoming(due, now)
	pause = clockInterval
	if len(w.queue) > 0 {
		pause = min(pause, max(w.queue[0].wake-now, 0))
	}
	w.measureLag(now)
	return due, tell, pause
}

// measureLag sets Stats.Lag and Stats.Excess. w.mu is held.
func (w *Watchdog) measureLag(now moment) {
	var most, excess time.Duration
	for _, n := range w.nodes {
		if lag := n.lag(now); lag > 0 {
			most, excess = max(most, lag), max(excess, lag-n.queue[0].ttl/3/harmlessPart)
		}
	}
	w.Stats.Lag.Store(int64(most))
	w.Stats.Excess.Store(int64(excess))
}

// addUpcoming adds groups that will be due soon, if few are due: a call costs a node more than a
// renewal in it. The due times after this one do not change. w.mu is held.
func (w *Watchdog) addUpcoming(due []*group, now moment) []*group {
	if len(due) == 0 || !due[0].regular {
		return due
	}
	work := 0
	for _, g := range due {
		work += g.work()
	}
	for len(w.queue) > 0 {
		g := w.queue[0].group
		work += g.work()
		if work > stepWork || g.busy || !g.regular || g.deadline < g.due || g.due > now+g.every/aheadPart {
			break
		}
		g.busy = true
		due = append(due, g)
		w.updateQueue(g)
	}
	return due
}

// updateQueue moves g to its position in the heap. It removes g when nothing is left to do for it.
// w.mu is held.
func (w *Watchdog) updateQueue(g *group) {
	idle := len(g.holds) == 0 && !g.busy && len(g.onRoundEnd) == 0
	switch {
	case idle && g.index >= 0:
		heap.Remove(&w.queue, g.index)
	case idle:
	case g.index >= 0:
		w.queue[g.index].wake = g.wake()
		heap.Fix(&w.queue, g.index)
	default:
		heap.Push(&w.queue, g)
	}
	if idle && w.groups[g.groupKey] == g {
		delete(w.groups, g.groupKey)
		w.groupTable.Remove(g.number)
	}
}
