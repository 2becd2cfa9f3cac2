package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// byUpstream are the targets by upstream. The targets of one lane run one after the other, because
// each program needs an empty upstream and leaves it empty.
func (b *testbed) byUpstream() (lanes [][]target) {
	for _, t := range b.targets {
		i := slices.IndexFunc(lanes, func(lane []target) bool { return lane[0].masters[0] == t.masters[0] })
		if i < 0 {
			lanes, i = append(lanes, nil), len(lanes)
		}
		lanes[i] = append(lanes[i], t)
	}
	return lanes
}

// A report counts the programs and prints a line for each. It is safe for concurrent use.
type report struct {
	mu             sync.Mutex
	out            io.Writer
	verbose        bool
	passed, failed int
}

func (r *report) add(c client, t target, took time.Duration, output []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	verdict := "ok"
	if err == nil {
		r.passed++
	} else {
		r.failed++
		verdict = "FAILED"
	}
	fmt.Fprintf(r.out, "%-7s%-18s%-11sthrough %-22s %5.1f s\n", verdict, c.name, t.mode, t.name, took.Seconds())
	printOutput(r.out, output, err, r.verbose)
}

// runAll runs the clients' programs, in each lane one after the other, and returns how many went
// well and how many did not. It ends early when ctx does.
func (b *testbed) runAll(ctx context.Context, clients []client, ready *preparations, opt options, out io.Writer) (passed, failed int) {
	r := &report{out: out, verbose: opt.verbose}
	var wg sync.WaitGroup
	for _, lane := range b.byUpstream() {
		wg.Go(func() {
			for _, c := range clients {
				runTargets(ctx, c, targetsOf(lane, c, opt), ready, opt, r)
			}
		})
	}
	wg.Wait()
	return r.passed, r.failed
}

// runTargets runs one client's program against those targets of a lane that are meant for it.
func runTargets(ctx context.Context, c client, targets []target, ready *preparations, opt options, r *report) {
	for _, t := range targets {
		began := time.Now()
		output, err := ready.run(ctx, c, t, opt)
		if ctx.Err() != nil {
			return
		}
		r.add(c, t, time.Since(began), output, err)
		if errors.Is(err, errNotReady) {
			return // the next target would fail, too
		}
	}
}

// printOutput prints the whole output of a program that failed, and the measurements of one that
// passed.
func printOutput(out io.Writer, output []byte, err error, verbose bool) {
	for line := range strings.Lines(strings.TrimSpace(string(output)) + "\n") {
		if err != nil || verbose || strings.HasPrefix(line, "measured ") {
			fmt.Fprint(out, "        ", line)
		}
	}
	if err != nil {
		fmt.Fprintln(out, "        =>", err)
	}
}
