package lockcmd

import (
	"log/slog"
	"time"

	"leash/lockcmd/hold"
)

const (
	maxLosses  = 1024        // losses that wait to be logged
	logTimeout = time.Second // how long Run waits for the log at its end
)

// loss is a lost hold in the form for the log.
type loss struct {
	hold   *hold.Hold
	reason string
	client string
}

// lossLog writes losses to the log in the background. A slow log must not delay the reports of
// other losses. It is safe for concurrent use; one goroutine runs it.
type lossLog struct {
	log    *slog.Logger
	losses chan loss
	ended  chan struct{}
}

func newLossLog(log *slog.Logger) *lossLog {
	return &lossLog{log: log, losses: make(chan loss, maxLosses), ended: make(chan struct{})}
}

// add queues a loss for the log. It does not block. It returns false if too many wait.
func (g *lossLog) add(l loss) bool {
	select {
	case g.losses <- l:
		return true
	default:
		return false
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

func (g *lossLog) write(l loss) {
	h := l.hold
	g.log.Warn("lock lost", "key", h.Key(), "db", h.Lock().DB, "owner", h.Owner(), "token", h.Token,
		"reason", l.reason, "client", l.client)
}
