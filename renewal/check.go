package renewal

import (
	"context"
	"sync"

	"leash/internal/guard"
)

// Check asks the store soon whether h is still there.
func (w *Watchdog) Check(h *Hold) {
	w.mu.Lock()
	if g := w.groupOf(h); g != nil {
		w.checkNow(g)
	}
	w.mu.Unlock()
	w.wakeUp()
}

// CheckAll asks the store soon whether every hold is still there. It does not wait.
func (w *Watchdog) CheckAll() { w.CheckSome(func(int) bool { return true }) }

// CheckSome asks the store soon whether the holds of those slots are still there. It does not wait.
func (w *Watchdog) CheckSome(has func(slot int) bool) {
	w.mu.Lock()
	for key, g := range w.groups {
		if has(key.slot) {
			w.checkNow(g)
		}
	}
	w.mu.Unlock()
	w.wakeUp()
}

// RenewAll renews every hold now and returns when the store has been asked for each, or ctx has
// ended. Run must be running.
func (w *Watchdog) RenewAll(ctx context.Context) {
	var asked sync.WaitGroup
	w.mu.Lock()
	for _, g := range w.groups {
		asked.Add(1)
		if g.busy {
			g.onNextRoundEnd = append(g.onNextRoundEnd, asked.Done)
		} else {
			g.onRoundEnd = append(g.onRoundEnd, asked.Done)
		}
		w.checkNow(g)
	}
	w.mu.Unlock()
	w.wakeUp()
	done := make(chan struct{})
	// It ends at the latest when the last round does.
	go guard.Func(w.Log, "last renewal", func() { closeAfter(&asked, done) })()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func closeAfter(wg *sync.WaitGroup, done chan struct{}) {
	wg.Wait()
	close(done)
}

// checkNow makes g due now. w.mu is held.
func (w *Watchdog) checkNow(g *group) {
	if g.busy {
		g.checkAgain = true
		return
	}
	g.due, g.regular = w.now(), false
	w.updateQueue(g)
}
