package view

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"leash/lockcmd/hold"
)

// Recorder counts what happens to the holds of one Leash, tells the observers, and logs losses.
// Make one with NewRecorder. Its methods block no longer than the log, and are safe for concurrent
// use, but for AddObserver with itself.
type Recorder struct {
	Timeouts atomic.Int64 // commands answered with LOCKTIMEOUT
	Taken    atomic.Int64 // acquires answered with nil, because the lock was taken

	losses    [len(lossReasons)]atomic.Int64
	log       *slog.Logger
	observers atomic.Pointer[[]Observer]
}

// NewRecorder makes a Recorder that logs losses to log.
func NewRecorder(log *slog.Logger) *Recorder {
	r := &Recorder{log: log}
	r.observers.Store(new([]Observer))
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
	c := changeOf(h, Lost, reason)
	for _, o := range *r.observers.Load() {
		o.Observe(c)
	}
	r.log.Warn("lock lost", "key", c.Key, "db", c.DB, "owner", c.Owner, "token", c.Token, "reason", c.Reason,
		"client", c.Client.Name)
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
