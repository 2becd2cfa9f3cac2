package program

import (
	"context"
	"sync"
	"time"

	"leash/internal/guard"
	"leash/proxy/pubsub"
)

// background runs f in a goroutine until stop is called. If f returns an error, fail is called with
// it, which stops the whole program. stop waits until f has returned, and returns its error.
func background(f func(context.Context) error, fail context.CancelCauseFunc) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := guard.Call(nil, "main", func() error { return f(ctx) })
		if err != nil {
			fail(err)
		}
		done <- err
	}()
	return func() error { cancel(); return <-done }
}

// announceFor is how long the start waits at most until the other Leashes know this one.
const announceFor = time.Second

// announce tells the other Leashes of the fleet that this one is there. They then ask it for its
// subscribers when they answer PUBSUB. It returns when they know, or after announceFor.
func announce(ctx context.Context, exchange *pubsub.Exchange, fail context.CancelCauseFunc) (stop func() error) {
	known := make(chan struct{})
	stop = background(func(ctx context.Context) error {
		return exchange.Run(ctx, sync.OnceFunc(func() { close(known) }))
	}, fail)
	select {
	case <-known:
	case <-ctx.Done():
	case <-time.After(announceFor):
	}
	return stop
}
