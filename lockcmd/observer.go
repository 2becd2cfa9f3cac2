package lockcmd

import (
	"log/slog"
	"sync/atomic"
	"time"

	"leash/lockcmd/hold"
)

// Observer is told what happens to the holds of a Service. Its methods must not block. They are
// called by many goroutines at once.
type Observer interface {
	// Watches reports whether Observe is to be called for more than losses.
	Watches() bool
	Observe(HoldChange)
}

// HoldChange is something that happened to a hold.
type HoldChange struct {
	Kind   ChangeKind
	DB     int
	Key    string
	Mode   string
	Owner  string
	Token  int64
	Client Client
	Waited time.Duration // of a grant: how long its command has waited
	Held   time.Duration // for how long a carrier of this Leash has had it
	Reason string        // of a loss, as in the log; empty otherwise
}

// ChangeKind says what happened to a hold.
type ChangeKind string

// The kinds of changes. After a loss, the end of the hold may follow.
const (
	Granted  ChangeKind = "granted"  // an owner got it, or it was moved to this Leash
	Released ChangeKind = "released" // it has ended
	Moved    ChangeKind = "moved"    // another connection has it now
	Expiring ChangeKind = "expiring" // its connection has ended, and it runs out
	Lost     ChangeKind = "lost"
)

// AddObserver adds one who is told of changes. While Watches is false, it costs two loads for each
// grant and each release. It is not safe for concurrent use with itself.
func (s *Service) AddObserver(o Observer) {
	all := append([]Observer{o}, *s.observers.Load()...)
	s.observers.Store(&all)
}

// observe tells the observers of a change that is no loss. waited is that of a grant. No mutex may
// be held.
func (s *Service) observe(kind ChangeKind, h *hold.Hold, waited time.Duration) {
	for _, o := range *s.observers.Load() {
		if o.Watches() {
			c := changeOf(h, kind, "")
			c.Waited = waited
			o.Observe(c)
		}
	}
}

// observeLoss tells the observer of a loss.
func (s *Service) observeLoss(h *hold.Hold, reason string) {
	for _, o := range *s.observers.Load() {
		o.Observe(changeOf(h, Lost, reason))
	}
}

// observeEnd tells the observer of a hold that is over. A loss was told before.
func (s *Service) observeEnd(ch *hold.Change) {
	switch {
	case ch.Has(hold.ReportReleased):
		s.observe(Released, ch.Hold, 0)
	case ch.Has(hold.ReportMoved):
		s.observe(Moved, ch.Hold, 0)
	case ch.Has(hold.LeaveToExpire):
		s.observe(Expiring, ch.Hold, 0)
	}
}

func changeOf(h *hold.Hold, kind ChangeKind, reason string) HoldChange {
	return HoldChange{
		Kind: kind, DB: h.Lock().DB, Key: h.Key(), Mode: h.Mode().Name, Owner: h.Owner(), Token: h.Token,
		Client: h.Carrier.Client(), Held: h.Age(), Reason: reason,
	}
}

const (
	maxLosses  = 1024        // losses that wait to be logged
	logTimeout = time.Second // how long Run waits for the log at its end
)

// lossLog is an Observer that writes losses to the log in the background. A slow log must not delay
// the reports of other losses. It is safe for concurrent use; one goroutine runs it.
type lossLog struct {
	log      *slog.Logger
	losses   chan HoldChange
	unlogged atomic.Int64 // losses for which there was no room
	ended    chan struct{}
}

func newLossLog(log *slog.Logger) *lossLog {
	return &lossLog{log: log, losses: make(chan HoldChange, maxLosses), ended: make(chan struct{})}
}

// Watches implements Observer.
func (g *lossLog) Watches() bool { return false }

// Observe implements Observer. It queues a loss for the log.
func (g *lossLog) Observe(c HoldChange) {
	select {
	case g.losses <- c:
	default:
		g.unlogged.Add(1)
	}
}

// end says that no more losses come.
func (g *lossLog) end() { close(g.ended) }

// run writes losses to the log. After end it returns when it has written the last one.
func (g *lossLog) run() {
	for {
		select {
		case l := <-g.losses:
			g.write(l)
			continue
		case <-g.ended:
		}
		for {
			select {
			case l := <-g.losses:
				g.write(l)
			default:
				return
			}
		}
	}
}

func (g *lossLog) write(c HoldChange) {
	g.log.Warn("lock lost", "key", c.Key, "db", c.DB, "owner", c.Owner, "token", c.Token, "reason", c.Reason,
		"client", c.Client.Name)
}
