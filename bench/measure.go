package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"leash/bench/load"
	"leash/bench/testbed"
)

// A measurement is the result of one target under one load in one round.
type measurement struct {
	commands int
	rate     float64            // commands a second
	p50, p99 time.Duration      // of a batch
	proxy    time.Duration      // CPU for each command; 0 without a proxy
	redis    time.Duration      // CPU for each command, all Redis processes together
	load     time.Duration      // CPU for each command, of the process that sends them
	calls    map[string]float64 // hand-overs: calls of Redis's commands, for each grant
}

// A result is all measurements of one target under one load.
type result struct {
	target   string
	pipeline int
	clients  int    // locks: connections, or contenders
	note     string // why there is no measurement
	rounds   []measurement
}

// measureAll measures all targets and pipelines in each round. The results are in the order of the
// pipelines, then of the targets. With gobench, out gets a line for each measurement at once.
func (b *relays) measureAll(ctx context.Context, opt options, out io.Writer) ([]*result, error) {
	var results []*result
	for _, pipeline := range opt.pipelines {
		for _, t := range b.targets {
			results = append(results, &result{target: t.name, pipeline: pipeline})
		}
	}
	took := time.Duration(opt.rounds*len(results)) * (opt.warmup + opt.round)
	for n := range opt.rounds {
		testbed.Progress(fmt.Sprintf("round %d of %d, %v in all", n+1, opt.rounds, took.Round(time.Second)))
		for i, r := range results {
			m, err := b.targets[i%len(b.targets)].measure(ctx, opt, r.pipeline)
			if err != nil {
				return nil, fmt.Errorf("%s, pipeline %d: %w", r.target, r.pipeline, err)
			}
			r.rounds = append(r.rounds, m)
			if opt.gobench {
				printGobench(out, r, m)
			}
		}
	}
	return results, nil
}

func (t target) measure(ctx context.Context, opt options, pipeline int) (measurement, error) {
	l := load.Load{
		Routes: t.routes, Clients: opt.clients, Pipeline: pipeline, ValueSize: opt.valueSize,
		Keys: opt.keys, Sets: opt.sets, Warmup: opt.warmup, Round: opt.round,
	}
	return t.measured(opt.round, func(mark func() error) (*load.Sample, error) { return l.Run(ctx, mark) })
}

// measured runs a load, which calls mark where the part that counts begins and where it ends.
func (t target) measured(round time.Duration, run func(mark func() error) (*load.Sample, error)) (measurement, error) {
	var marks []usage
	s, err := run(func() error {
		u, err := t.usage()
		marks = append(marks, u)
		return err
	})
	if err != nil {
		return measurement{}, err
	}
	if s.Commands == 0 {
		return measurement{}, fmt.Errorf("no batch was answered within %v: give a longer --round", round)
	}
	each := func(part func(usage) time.Duration) time.Duration {
		return (part(marks[1]) - part(marks[0])) / time.Duration(s.Commands)
	}
	return measurement{
		commands: s.Commands,
		rate:     float64(s.Commands) / s.Elapsed.Seconds(),
		p50:      s.P50,
		p99:      s.P99,
		proxy:    each(func(u usage) time.Duration { return u.proxy }),
		redis:    each(func(u usage) time.Duration { return u.redis }),
		load:     each(func(u usage) time.Duration { return u.load }),
	}, nil
}

// usage is the CPU time that processes have used since they started.
type usage struct {
	proxy, redis, load time.Duration
}

func (t target) usage() (u usage, err error) {
	load := os.Getpid()
	if t.load != 0 {
		load = t.load
	}
	if u.load, err = testbed.CPUTimes(load); err != nil {
		return u, err
	}
	if u.proxy, err = testbed.CPUTimes(t.proxies...); err != nil {
		return u, err
	}
	u.redis, err = testbed.CPUTimes(t.redis...)
	return u, err
}

// median is the median of the rounds' values. For an even number, it is the mean of the two in the
// middle.
func median[T float64 | time.Duration](r *result, of func(measurement) T) T {
	var values []T
	for _, m := range r.rounds {
		values = append(values, of(m))
	}
	return middleOf(values)
}

// middleOf is the median of values, which it sorts.
func middleOf[T float64 | time.Duration](values []T) T {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// spread is the largest distance of a round's rate from the median, as a share of the median.
func spread(r *result) float64 {
	middle := median(r, func(m measurement) float64 { return m.rate })
	most := 0.0
	for _, m := range r.rounds {
		most = max(most, m.rate/middle-1, 1-m.rate/middle)
	}
	return most
}
