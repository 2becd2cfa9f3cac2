package program

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// takeHangups makes SIGHUP a value in hangups. Without it, the signal would end the process.
func takeHangups() (hangups chan os.Signal) {
	hangups = make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// hangupReader passes SIGHUP on to those that then read their files again.
type hangupReader struct {
	wakes []chan os.Signal // size 1 each
	log   *slog.Logger
}

// wake returns a channel that gets a value after each SIGHUP. Call it before run.
func (h *hangupReader) wake() <-chan os.Signal {
	wake := make(chan os.Signal, 1)
	h.wakes = append(h.wakes, wake)
	return wake
}

// run passes signals on until ctx is done.
func (h *hangupReader) run(ctx context.Context, hangups <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-hangups:
			if len(h.wakes) == 0 {
				h.log.Info("SIGHUP is ignored: there are no files to read again")
			}
			for _, wake := range h.wakes {
				select {
				case wake <- s:
				default:
				}
			}
		}
	}
}

// follow reads changed files until stop is called. A value in hangups makes it read them at once.
func (c certificates) follow(h *hangupReader, hangups <-chan os.Signal) (stop func()) {
	var stops []func() error
	start := func(run func(context.Context, <-chan os.Signal), wake <-chan os.Signal) {
		stops = append(stops, background(func(ctx context.Context) error { run(ctx, wake); return nil }, nil))
	}
	for _, s := range c.all() {
		start(s.Run, h.wake())
	}
	if c.users != nil {
		start(c.users.Run, h.wake())
	}
	start(h.run, hangups)
	return func() {
		for _, stop := range stops {
			_ = stop()
		}
	}
}
