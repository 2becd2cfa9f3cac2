package lockcmd

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"leash/lockcmd/hold"
)

// maxLimits is how many holds without a connection are remembered for their MAXHOLD. Further ones
// expire as if they had no MAXHOLD.
const maxLimits = 100_000

// limits releases holds that are left to expire, without a connection, when their MAXHOLD is over
// before that. Their owners do not rely on them any more, and their client has agreed to it (R28).
// A hold that its owner moved has another carrier and stays. A LEASE ends with MAXHOLD anyway, see
// capLease. limits is safe for concurrent use; one goroutine runs it.
type limits struct {
	service       *Service
	wake          chan struct{} // size 1: the first end has changed
	endingBatches atomic.Int64  // batches in progress

	mu    sync.Mutex
	holds limitHeap
}

// limitedHold is a hold and when to release it.
type limitedHold struct {
	hold *hold.Hold
	at   time.Time
}

func newLimits(s *Service) *limits { return &limits{service: s, wake: make(chan struct{}, 1)} }

// add takes holds of one carrier that is gone and that the watchdog does not keep any more. None is
// released before notBefore. The copies that it keeps do not keep the connection in memory.
func (l *limits) add(holds []*hold.Hold, notBefore time.Time) {
	left := detachedHolds(holds, notBefore)
	if left == nil {
		return
	}
	l.mu.Lock()
	for _, x := range left {
		if len(l.holds) < maxLimits {
			heap.Push(&l.holds, x)
		}
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// detachedHolds returns copies, with a copy of their carrier, of the holds that outlast their
// MAXHOLD.
func detachedHolds(holds []*hold.Hold, notBefore time.Time) (left []limitedHold) {
	now, carrier := time.Now(), holds[0].Carrier.Detached()
	for _, h := range holds {
		d := h.Details()
		if at := later(d.MaxHoldEnd, notBefore); !d.MaxHoldEnd.IsZero() && !d.Terms.Lease && at.Before(now.Add(d.TTL)) {
			left = append(left, limitedHold{h.Copy(carrier), at})
		}
	}
	return left
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// limitPause is how long each batch in progress delays the next one. While Redis does not answer,
// batches are few and large.
const limitPause = 20 * time.Millisecond

// run releases each hold at its time until ctx ends. The rest expires.
func (l *limits) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.wake:
		}
		if pause := time.Duration(l.endingBatches.Load())*limitPause - time.Since(last); pause > 0 {
			timer.Reset(pause)
			continue
		}
		due, next := l.due(time.Now())
		if len(due) > 0 {
			last = time.Now()
			l.end(due)
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// end releases holds as one batch. It does not block.
func (l *limits) end(holds []*hold.Hold) {
	l.endingBatches.Add(1)
	ended := l.release(holds)
	if !l.service.spawn(func() { <-ended; l.endingBatches.Add(-1) }) {
		l.endingBatches.Add(-1)
	}
}

// release releases holds. done is closed when all have ended.
func (l *limits) release(holds []*hold.Hold) (done <-chan struct{}) {
	return l.service.holds.ApplyAll(hold.ClosedToRelease, holds)
}

// due removes and returns the holds whose time has come. next is when the next one is due, zero for
// none.
func (l *limits) due(now time.Time) (holds []*hold.Hold, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.holds) > 0 {
		if next = l.holds[0].at; next.After(now) {
			return holds, next
		}
		holds = append(holds, heap.Pop(&l.holds).(limitedHold).hold)
	}
	return holds, time.Time{}
}

// limitHeap is a heap.Interface with the earliest end first.
type limitHeap []limitedHold

func (l limitHeap) Len() int           { return len(l) }
func (l limitHeap) Less(i, j int) bool { return l[i].at.Before(l[j].at) }
func (l limitHeap) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *limitHeap) Push(x any)        { *l = append(*l, x.(limitedHold)) }
func (l *limitHeap) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	(*l)[last] = limitedHold{}
	*l = (*l)[:last]
	return x
}
