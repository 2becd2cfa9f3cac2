package main

import (
	"context"
	"time"
)

// A beat says when to send the requests of a client that sends at a steady rate and waits for each
// answer.
type pacer struct {
	every time.Duration
	due   time.Time // the next one
	end   time.Time
	// from is when the time of the request counts from: when it could be sent, or, if the answer to
	// the one before it came too late for that, when it was due. A timer that is late is no fault
	// of who is measured; one that answers slowly must not get fewer requests for it.
	from time.Time
}

func newPacer(begin time.Time, every, lasts time.Duration) *pacer {
	return &pacer{every: every, due: begin, end: begin.Add(lasts)}
}

// next waits until the next request is to be sent; false when it was the last one, or ctx is done.
func (b *pacer) next(ctx context.Context) bool {
	if !b.due.Before(b.end) {
		return false
	}
	b.from = b.due
	if wait := time.Until(b.due); wait > 0 {
		if pause(ctx, wait) != nil {
			return false
		}
		b.from = time.Now()
	}
	b.due = b.due.Add(b.every)
	return ctx.Err() == nil
}
