package pubsub

import "time"

// warnEvery is how often a hub repeats a warning.
const warnEvery = time.Minute

// warnLimiter logs a warning at most once per warnEvery, with the number of warnings that it left
// out. The zero value is ready.
type warnLimiter struct {
	last    time.Time
	skipped int
}

// warnLocked logs a warning about a hub's user. It queues the logging as a task for the keeper,
// which runs it without mu.
func (d *warnLimiter) warnLocked(h *hub, message string, attrs ...any) {
	now := time.Now()
	if !d.last.IsZero() && now.Sub(d.last) < warnEvery {
		d.skipped++
		return
	}
	attrs = append([]any{"user", h.lane.ACLUser()}, attrs...)
	if d.skipped > 0 {
		attrs = append(attrs, "more", d.skipped)
	}
	d.last, d.skipped = now, 0
	h.tasks = append(h.tasks, func() { h.x.log.Warn(message, attrs...) })
	h.wakeLocked()
}
