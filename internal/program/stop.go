package program

import (
	"context"
	"log/slog"
	"time"

	"leash/internal/systemd"
)

// delayed returns a context that ends drainDelay after ctx. Until then, clients can still connect,
// but /readyz sends new ones to another Leash, and tell says so to those that asked for it. release
// frees what it uses.
func delayed(ctx context.Context, drainDelay func() time.Duration, tell func(time.Duration),
	log *slog.Logger) (late context.Context, release func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	end := background(func(over context.Context) error {
		defer cancel()
		select {
		case <-ctx.Done():
		case <-over.Done():
			return nil
		}
		systemd.Stopping(log)
		delay := drainDelay()
		if delay > 0 {
			log.Info("leash stops soon, and still takes new clients", "drain-delay", delay)
			tell(delay)
		}
		select {
		case <-time.After(delay):
		case <-over.Done():
		}
		return nil
	}, nil)
	return late, func() { _ = end() }
}

// auditEnd is how long a stop waits until the audit log has taken its last lines.
const auditEnd = 2 * time.Second

// endAudit ends the audit log. A disk or a pipe that takes no bytes does not keep Leash from
// ending.
func endAudit(end func() error, log *slog.Logger) {
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	select {
	case <-ended:
	case <-time.After(auditEnd):
		log.Error("the audit log takes no bytes, its last lines are lost")
	}
}
