package view

import (
	"log/slog"
	"sync/atomic"
)

// maxLosses is how many losses wait to be logged.
const maxLosses = 1024

// lossLog is an Observer that writes losses to the log in the background. A slow log must not delay
// the reports of other losses. It is safe for concurrent use; one goroutine runs it.
type lossLog struct {
	log      *slog.Logger
	losses   chan Change
	unlogged atomic.Int64 // losses for which there was no room
	ended    chan struct{}
}

func newLossLog(log *slog.Logger) *lossLog {
	return &lossLog{log: log, losses: make(chan Change, maxLosses), ended: make(chan struct{})}
}

// Watches implements Observer.
func (g *lossLog) Watches() bool { return false }

// Observe implements Observer. It queues a loss for the log.
func (g *lossLog) Observe(c Change) {
	select {
	case g.losses <- c:
	default:
		g.unlogged.Add(1)
	}
}

// run writes losses to the log. It returns after the end, when it has written the last one.
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

func (g *lossLog) write(c Change) {
	g.log.Warn("lock lost", "key", c.Key, "db", c.DB, "owner", c.Owner, "token", c.Token, "reason", c.Reason,
		"client", c.Client.Name)
}
