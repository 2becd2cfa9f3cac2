package renewal

import (
	"context"
	"sync"
	"time"
)

// patience is a context that ends at a time, as one of context.WithDeadline does, but has a timer
// only once somebody asks for its Done. There are a thousand rounds a second, and a store that
// looks at the Deadline has no use for it.
type patience struct {
	context.Context // the parent
	until           time.Time

	mu     sync.Mutex
	timed  context.Context // nil until somebody has asked for Done
	cancel context.CancelFunc
	over   bool // by end
}

// newPatience is a context that ends at until, or by its end, which is to be called.
func newPatience(parent context.Context, until time.Time) *patience {
	return &patience{Context: parent, until: until}
}

func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.cancel != nil {
		p.cancel()
	}
}

// Deadline implements context.Context.
func (p *patience) Deadline() (time.Time, bool) {
	at, ok := p.Context.Deadline()
	if ok && at.Before(p.until) {
		return at, true
	}
	return p.until, true
}

// Done implements context.Context.
func (p *patience) Done() <-chan struct{} { return p.whole().Done() }

// Value implements context.Context. By it a child finds out that it need not watch Done with a
// goroutine.
func (p *patience) Value(key any) any { return p.inner().Value(key) }

// Err implements context.Context.
func (p *patience) Err() error {
	if err := p.inner().Err(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
		return context.Canceled
	case !time.Now().Before(p.until):
		return context.DeadlineExceeded
	}
	return nil
}

// inner is the context with the timer, if there is one yet, else the parent.
func (p *patience) inner() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timed != nil {
		return p.timed
	}
	return p.Context
}

// whole is the context with the timer.
func (p *patience) whole() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timed == nil {
		p.timed, p.cancel = context.WithDeadline(p.Context, p.until)
		if p.over {
			p.cancel()
		}
	}
	return p.timed
}
