package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"leash/bench/testbed"
)

// A lockRow is a line of a table of locks: one way to take locks with a number of clients.
type lockRow struct {
	result
	measure func(ctx context.Context) (measurement, error) // nil when there is only a note
	library bool                                           // if it fails, the other rows are still measured
}

// runLocks is "bench locks": it measures and prints to out, one Redis or cluster after the other.
func runLocks(ctx context.Context, args []string, out io.Writer) error {
	opt, err := parseLockOptions(args, out)
	if err != nil {
		return err
	}
	fmt.Fprint(out, machine(append([]string{"locks"}, args...)))
	for _, name := range opt.grounds {
		if err := runEnvironment(ctx, opt, name, out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func runEnvironment(ctx context.Context, opt lockOptions, name string, out io.Writer) (err error) {
	g, err := setUpEnvironment(ctx, opt, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := g.measureAll(ctx, opt); err != nil {
		return err
	}
	printPairs(out, name, g.pairs)
	printRaces(out, name, g.races)
	return nil
}

// measureAll measures all rows in each round.
func (g *environment) measureAll(ctx context.Context, opt lockOptions) error {
	rows := append(g.pairs[:len(g.pairs):len(g.pairs)], g.races...)
	took := time.Duration((opt.rounds+uncounted)*len(rows)) * (opt.warmup + opt.round)
	for n := range opt.rounds + uncounted {
		testbed.Progress(fmt.Sprintf("%s, round %d of %d, %v in all", g.name, n, opt.rounds, took.Round(time.Second)))
		for _, r := range rows {
			if r.measure == nil || r.note != "" {
				continue
			}
			m, err := r.measure(ctx)
			switch {
			case err != nil && r.library && ctx.Err() == nil:
				fmt.Fprintf(os.Stderr, "bench: %s is left out: %v\n", r.target, err)
				r.note = "failed"
			case err != nil:
				return fmt.Errorf("%s, %d clients: %w", r.target, r.clients, err)
			case n >= uncounted:
				r.rounds = append(r.rounds, m)
			}
		}
	}
	return nil
}
