package main

import (
	"context"
	"time"
)

// A pacer says when a client sends its requests. The client sends at a steady rate and waits for
// each reply.
type pacer struct {
	every time.Duration
	due   time.Time // the next one
	end   time.Time
	// from is when the time of the request begins to count. Normally that is when it was sent, so a
	// late timer does not count. If the reply before came after the request was due, it is when the
	// request was due. So a slow server does not get fewer requests counted.
	from time.Time
}

func newPacer(begin time.Time, every, lasts time.Duration) *pacer {
	return &pacer{every: every, due: begin, end: begin.Add(lasts)}
}

// next waits until the next request is due. It returns false at the end or when ctx is done.
func (p *pacer) next(ctx context.Context) bool {
	if !p.due.Before(p.end) {
		return false
	}
	p.from = p.due
	if wait := time.Until(p.due); wait > 0 {
		if pause(ctx, wait) != nil {
			return false
		}
		p.from = time.Now()
	}
	p.due = p.due.Add(p.every)
	return ctx.Err() == nil
}
