package renewal

import (
	"context"
	"sync"
	"time"
)

// deadlineContext is like a context of context.WithDeadline, but it has no timer until Done is
// called. There may be a thousand rounds a second, and a store that reads the Deadline needs no
// timer.
type deadlineContext struct {
	context.Context // the parent
	deadline        time.Time

	mu        sync.Mutex
	withTimer context.Context // nil until Done is called
	cancel    context.CancelFunc
	ended     bool // end was called
}

// newDeadlineContext makes a context that ends at until, or when end is called. Call end.
func newDeadlineContext(parent context.Context, until time.Time) *deadlineContext {
	return &deadlineContext{Context: parent, deadline: until}
}

func (c *deadlineContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Deadline implements context.Context.
func (c *deadlineContext) Deadline() (time.Time, bool) {
	at, ok := c.Context.Deadline()
	if ok && at.Before(c.deadline) {
		return at, true
	}
	return c.deadline, true
}

// Done implements context.Context.
func (c *deadlineContext) Done() <-chan struct{} { return c.timerContext().Done() }

// Value implements context.Context. Through it, a child context finds the context with the timer,
// and needs no goroutine of its own.
func (c *deadlineContext) Value(key any) any { return c.current().Value(key) }

// Err implements context.Context.
func (c *deadlineContext) Err() error {
	if err := c.current().Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return context.Canceled
	case !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// current is the context with the timer, if there is one yet, else the parent.
func (c *deadlineContext) current() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.withTimer != nil {
		return c.withTimer
	}
	return c.Context
}

// timerContext is the context with the timer.
func (c *deadlineContext) timerContext() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.withTimer == nil {
		c.withTimer, c.cancel = context.WithDeadline(c.Context, c.deadline)
		if c.ended {
			c.cancel()
		}
	}
	return c.withTimer
}
