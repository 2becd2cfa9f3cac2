package load

import (
	"context"
	"time"
)

// A Pacer says when a client sends its requests. The client sends at a steady rate and waits for
// each reply.
type Pacer struct {
	every time.Duration
	due   time.Time // the next one
	end   time.Time
	// From is when the time of the request begins to count. Normally that is when it was sent, so a
	// late timer does not count. If the reply before came after the request was due, it is when the
	// request was due. So a slow server does not get fewer requests counted.
	From time.Time
}

// NewPacer makes a Pacer whose first request is due at begin.
func NewPacer(begin time.Time, every, lasts time.Duration) *Pacer {
	return &Pacer{every: every, due: begin, end: begin.Add(lasts)}
}

// Next waits until the next request is due. It returns false at the end or when ctx is done.
func (p *Pacer) Next(ctx context.Context) bool {
	if !p.due.Before(p.end) {
		return false
	}
	p.From = p.due
	if wait := time.Until(p.due); wait > 0 {
		if Pause(ctx, wait) != nil {
			return false
		}
		p.From = time.Now()
	}
	p.due = p.due.Add(p.every)
	return ctx.Err() == nil
}

// Pause waits for d, or for the end of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
