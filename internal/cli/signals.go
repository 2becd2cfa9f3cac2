package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"leash/internal/guard"
)

// passed are the signals that go to the program's process group.
var passed = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
	syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT}

// passSignals makes this process get the signals for its program instead of ending. The caller
// ends that with stop.
func passSignals() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	signal.Notify(c, passed...)
	return c, func() { signal.Stop(c) }
}

// acquireFor takes the lock and turns what went wrong into an exit status. A signal ends the wait.
func acquireFor(c *cobra.Command, servers *serverList, t terms) (holder, error) {
	ctx, interrupted := withSignals(c.Context())
	h, err := acquire(ctx, servers, t, func(err error) { fmt.Fprintln(c.ErrOrStderr(), "leash: still waiting:", err) })
	ended := ctx.Err() != nil
	interrupted.stop()
	var exit *exitError
	switch {
	case err == nil:
		return h, nil
	case ended:
		return nil, &exitError{interrupted.status(), nil}
	case errors.Is(err, errTaken):
		return nil, &exitError{exitTaken, fmt.Errorf("%s is taken", t.key)}
	case errors.As(err, &exit):
		return nil, err
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return nil, &exitError{exitFailed, err}
	}
	return nil, &exitError{exitUnavailable, err}
}

// interruption is the signal that ended a wait.
type interruption struct {
	stop   func() // ends the wait for a signal
	signal os.Signal
}

// status is the exit status as a shell has it. It must be called after stop.
func (i *interruption) status() int {
	if sig, ok := i.signal.(syscall.Signal); ok {
		return exitSignal + int(sig)
	}
	return exitFailed
}

// withSignals returns a ctx that ends with the first signal that would end a process.
func withSignals(parent context.Context) (context.Context, *interruption) {
	ctx, cancel := context.WithCancel(parent)
	signals, stopSignals := passSignals()
	i, done := &interruption{}, make(chan struct{})
	go func() {
		defer close(done)
		guard.Do(nil, "wait for a signal", func() {
			defer cancel()
			for ctx.Err() == nil && i.signal == nil {
				select {
				case <-ctx.Done():
				case sig := <-signals:
					if sig != syscall.SIGWINCH && sig != syscall.SIGCONT {
						i.signal = sig
					}
				}
			}
		})
	}()
	i.stop = func() {
		cancel()
		<-done
		stopSignals()
	}
	return ctx, i
}
