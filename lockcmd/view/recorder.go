package view

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"leash/lockcmd/hold"
)

// Recorder counts what happens to the holds of one Leash, tells the observers, and logs losses.
// Make one with NewRecorder. Its methods do not block, but for RunLog, and are safe for concurrent
// use, but for AddObserver with itself.
type Recorder struct {
	Timeouts atomic.Int64 // commands answered with LOCKTIMEOUT
	Taken    atomic.Int64 // acquires answered with nil, because the lock was taken

	losses    [len(lossReasons)]atomic.Int64
	log       *lossLog
	observers atomic.Pointer[[]Observer]
}

// NewRecorder makes a Recorder that logs losses to log while RunLog runs.
func NewRecorder(log *slog.Logger) *Recorder {
	r := &Recorder{log: newLossLog(log)}
	r.observers.Store(&[]Observer{r.log})
	return r
}

// AddObserver adds one who is told of changes. While Watches is false, it costs two loads for each
// grant and each release.
func (r *Recorder) AddObserver(o Observer) {
	all := append([]Observer{o}, *r.observers.Load()...)
	r.observers.Store(&all)
}

// Granted tells the observers that h was granted after its command has waited so long. No mutex may
// be held.
func (r *Recorder) Granted(h *hold.Hold, waited time.Duration) { r.tell(Granted, h, waited) }

func (r *Recorder) tell(kind Kind, h *hold.Hold, waited time.Duration) {
	for _, o := range *r.observers.Load() {
		if o.Watches() {
			c := changeOf(h, kind, "")
			c.Waited = waited
			o.Observe(c)
		}
	}
}

// Lost counts and tells that h is lost. No mutex may be held.
func (r *Recorder) Lost(h *hold.Hold, reason string) {
	if i := slices.Index(lossReasons[:], reason); i >= 0 {
		r.losses[i].Add(1)
	}
	for _, o := range *r.observers.Load() {
		o.Observe(changeOf(h, Lost, reason))
	}
}

// Ended tells the observers of a hold that is over. A loss was told before. No mutex may be held.
func (r *Recorder) Ended(ch *hold.Change) {
	switch {
	case ch.Has(hold.ReportReleased):
		r.tell(Released, ch.Hold, 0)
	case ch.Has(hold.ReportMoved):
		r.tell(Moved, ch.Hold, 0)
	case ch.Has(hold.LeaveToExpire):
		r.tell(Expiring, ch.Hold, 0)
	}
}

// RunLog writes losses to the log. It returns after EndLog, when it has written the last one.
func (r *Recorder) RunLog() { r.log.run() }

// EndLog says that no more losses come.
func (r *Recorder) EndLog() { close(r.log.ended) }
