// Package guard keeps a panic in one goroutine from ending the process.
//
// Every goroutine, and every function that a timer or a context calls, runs through Do, Func or
// Repeat. A panic is counted (Panics) and logged once, at ERROR, with its stack. The owner of the
// goroutine decides what the panic costs: Do returns an error, with which the owner ends a
// connection or answers a caller; Repeat starts a loop again.
//
// What no function can recover still ends the process: memory that is used up, a stack that is too
// deep, maps that are written to by two goroutines at once. Mutexes that f holds when it panics
// stay locked, unless f unlocks them with defer.
package guard

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Repeat waits for minPause after the first panic before it starts a function again. After each
// panic that follows soon, it waits twice as long, up to maxPause.
const (
	minPause = 100 * time.Millisecond
	maxPause = 10 * time.Second
)

var panics atomic.Int64

// Panics is how many panics have been recovered since the process started.
func Panics() int64 { return panics.Load() }

// Panic is the error for a panic.
type Panic struct {
	Value any // what the function panicked with
}

// Error implements error.
func (p *Panic) Error() string { return fmt.Sprintf("internal error: %v", p.Value) }

// Do runs f. If f panics, Do returns a *Panic. what names f in the log; attrs are further
// attributes of the log line. If log is nil, slog.Default is used.
func Do(log *slog.Logger, what string, f func(), attrs ...any) error {
	return Call(log, what, func() error { f(); return nil }, attrs...)
}

// Call is Do for a function that returns an error, which it passes on.
func Call(log *slog.Logger, what string, f func() error, attrs ...any) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = caught(log, what, v, attrs)
		}
	}()
	return f()
}

// caught counts and logs a panic.
func caught(log *slog.Logger, what string, v any, attrs []any) error {
	panics.Add(1)
	if log == nil {
		log = slog.Default()
	}
	attrs = append([]any{"in", what, "panic", fmt.Sprint(v), "stack", string(debug.Stack())}, attrs...)
	log.Error("panic recovered", attrs...)
	return &Panic{Value: v}
}

// Func returns a function that runs f by Do, for goroutines, timers and contexts whose owner needs
// no error.
func Func(log *slog.Logger, what string, f func(), attrs ...any) func() {
	return func() { _ = Do(log, what, f, attrs...) }
}

// Repeat runs f by Do, and again after each panic, until f returns or ctx is done.
func Repeat(ctx context.Context, log *slog.Logger, what string, f func(), attrs ...any) {
	pause := minPause
	for {
		began := time.Now()
		if Do(log, what, f, attrs...) == nil {
			return
		}
		if time.Since(began) > maxPause {
			pause = minPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = min(2*pause, maxPause)
	}
}
