package guard

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAPanicIsAnErrorWithItsStackInTheLog: the owner of the goroutine gets an error, and the log
// has the stack.
func TestAPanicIsAnErrorWithItsStackInTheLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	before := Panics()
	err := Do(log, "link reader", indexOutOfRange, "node", "10.0.0.1:6379")
	var p *Panic
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "out of range") {
		t.Errorf("error %v, want a *Panic with the value of the panic", err)
	}
	if got := Panics() - before; got != 1 {
		t.Errorf("%d panics counted, want 1", got)
	}
	for _, want := range []string{"level=ERROR", `in="link reader"`, "indexOutOfRange", "node=10.0.0.1:6379"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, out.String())
		}
	}
	if err := Do(log, "x", func() {}); err != nil {
		t.Errorf("error %v of a function that did not panic", err)
	}
}

func indexOutOfRange() {
	var empty []int
	_ = empty[len(empty)]
}

func TestFuncReturnsAfterAPanic(t *testing.T) {
	var wg sync.WaitGroup
	wg.Go(Func(slog.New(slog.DiscardHandler), "task", func() { panic("no") }))
	wg.Wait()
}

// TestRepeatStartsALoopAgain: Repeat restarts a loop after each panic, with growing pauses.
func TestRepeatStartsALoopAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		began := time.Now()
		Repeat(t.Context(), slog.New(slog.DiscardHandler), "loop", func() {
			starts = append(starts, time.Since(began))
			if len(starts) < 10 {
				panic("no")
			}
		})
		if len(starts) != 10 || starts[1] != minPause || starts[2] != 3*minPause {
			t.Errorf("started after %v, want 10 starts with pauses that double", starts)
		}
		if last := starts[9] - starts[8]; last != maxPause {
			t.Errorf("the last pause was %v, want %v", last, maxPause)
		}
	})
}

func TestRepeatEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	Repeat(ctx, slog.New(slog.DiscardHandler), "loop", func() { cancel(); panic("no") })
}

// TestTasksEnd: after End no task begins, and Wait waits for those that run, also if one panics.
func TestTasksEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := Tasks{Log: slog.New(slog.DiscardHandler), What: "task"}
		done := false
		tasks.Spawn(func() { panic("no") })
		if !tasks.Spawn(func() { time.Sleep(time.Minute); done = true }) {
			t.Error("a task does not begin before End")
		}
		tasks.End()
		if tasks.Spawn(func() { t.Error("a task has begun after End") }) {
			t.Error("Spawn says that a task has begun after End")
		}
		if tasks.Wait(); !done {
			t.Error("Wait did not wait for a task")
		}
	})
}
