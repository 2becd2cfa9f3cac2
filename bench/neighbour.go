package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"leash/bench/load"
	"leash/bench/testbed"
	"leash/internal/redistest"
)

const neighbourUsage = `Bench neighbour measures the GETs of one user beside a loud user with --limit-user commands. The loud
user is absent, sends as much as the limit allows, and sends ten times as much: to another Leash, and to
the same one. So the last row shows, beside the one above, what the loud user costs within Leash, and not
what its process costs on this machine. That process has a low priority. The change of p99 is the median
of the rounds. The column "95 %" says between which limits it lies, with that probability.

Usage: go run ./bench neighbour [flags]

`

const (
	quietClients = 10
	quietRate    = 1000 // GETs a second of all clients together
	// neighbourWarmup is longer than a bucket needs to become empty that was full, at ten times the
	// limit.
	neighbourWarmup = 500 * time.Millisecond
)

// neighbourOptions are the flags of "bench neighbour".
type neighbourOptions struct {
	options
	limit int // commands a second
}

func parseNeighbourOptions(args []string, out io.Writer) (neighbourOptions, error) {
	var opt neighbourOptions
	fs := pflag.NewFlagSet("bench neighbour", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.IntVar(&opt.limit, "limit", 2000, "`commands` a second that Leash allows each user")
	fs.IntVar(&opt.clients, "clients", 50, "connections of the loud user; with 200, Leash refuses commands")
	fs.IntVar(&opt.rounds, "rounds", 7, "measurements of each row, taken in turn")
	fs.DurationVar(&opt.round, "round", 4*time.Second, "how long a measurement takes")
	fs.StringVar(&opt.leash, "leash", "", "`binary` of Leash to measure (default: built from this module)")
	fs.Usage = func() { fmt.Fprint(out, neighbourUsage, fs.FlagUsages()) }
	err := fs.Parse(args)
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return opt, errors.Join(err, within("limit", opt.limit, 2*quietRate, 100000), within("clients", opt.clients, 1, 1000),
		opt.validateRounds())
}

// A neighbour is how much the loud user sends, and what was measured beside it.
type neighbour struct {
	name  string
	times int  // the limit
	other bool // the loud user is at another Leash

	// Of each round.
	samples            []*load.Histogram
	cpu                []time.Duration // of Leash
	sent, ran, refused []float64       // of the loud user, a second
}

// runNeighbour is "bench neighbour": it measures and prints to out.
func runNeighbour(ctx context.Context, args []string, out io.Writer) (err error) {
	opt, err := parseNeighbourOptions(args, out)
	if err != nil {
		return err
	}
	b := &testbed.Bed{}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err = b.MakeDir(); err != nil {
		return err
	}
	if opt.leash, err = b.LeashBinary(ctx, opt.leash); err != nil {
		return err
	}
	redis, err := b.LaunchRedis()
	if err != nil {
		return err
	}
	if err := redis.Client().ACLSetUser(ctx, loudUser, "on", ">"+loudUser, "~*", "+@all").Err(); err != nil {
		return err
	}
	var leashes [2]*testbed.Child
	for i := range leashes {
		leashes[i], err = b.StartChild(ctx, opt.leash, func(port int) ([]string, error) {
			return []string{"--listen", "127.0.0.1:" + strconv.Itoa(port), "--upstream", redis.Addr,
				"--limit-user", "commands=" + strconv.Itoa(opt.limit)}, nil
		})
		if err != nil {
			return err
		}
	}
	rows := []*neighbour{{name: "absent"}, {name: "at the limit", times: 1},
		{name: "10 times, at another Leash", times: 10, other: true}, {name: "10 times, at the same", times: 10}}
	for n := range opt.rounds {
		testbed.Progress(fmt.Sprintf("round %d of %d, %v in all", n+1, opt.rounds,
			(time.Duration(len(rows)*opt.rounds) * (neighbourWarmup + opt.round)).Round(time.Second)))
		for _, row := range rows {
			if err := row.measure(ctx, opt, b.Dir, leashes); err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
		}
	}
	fmt.Fprintln(out, machine(append([]string{"neighbour"}, args...)))
	printNeighbours(out, rows)
	return nil
}

// measure adds a round.
func (n *neighbour) measure(ctx context.Context, opt neighbourOptions, dir string, leashes [2]*testbed.Child) (err error) {
	leash, loudest := leashes[0], leashes[0]
	if n.other {
		loudest = leashes[1]
	}
	var loud *loudProcess
	if n.times > 0 {
		if loud, err = startLoud(dir, loudest.Addr, opt.clients, opt.limit*n.times); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, loud.Stop()) }()
	}
	if err := load.Pause(ctx, neighbourWarmup); err != nil {
		return err
	}
	before, err := loud.counts(ctx)
	if err != nil {
		return err
	}
	cpuBefore, err := testbed.CPUTime(leash.PID())
	if err != nil {
		return err
	}
	began := time.Now()
	h, err := readQuietly(ctx, leash.Addr, opt.round)
	if err != nil {
		return err
	}
	cpu, err := testbed.CPUTime(leash.PID())
	if err != nil {
		return err
	}
	after, err := loud.counts(ctx)
	elapsed := time.Since(began) // more than the round, when the machine is busy
	if err != nil {
		return err
	}
	n.samples = append(n.samples, h)
	n.cpu = append(n.cpu, cpu-cpuBefore)
	seconds := elapsed.Seconds()
	n.sent = append(n.sent, float64(after.sent-before.sent)/seconds)
	n.ran = append(n.ran, float64(after.ran-before.ran)/seconds)
	n.refused = append(n.refused, float64(after.refused-before.refused)/seconds)
	return nil
}

// readQuietly sends GETs at a steady rate.
func readQuietly(ctx context.Context, addr string, lasts time.Duration) (*load.Histogram, error) {
	samples, errs := make([]load.Histogram, quietClients), make([]error, quietClients)
	const every = quietClients * time.Second / quietRate
	begin := time.Now()
	var reading sync.WaitGroup
	for i := range quietClients {
		reading.Go(func() {
			at := begin.Add(every * time.Duration(i) / quietClients)
			errs[i] = readAtPace(ctx, addr, load.NewPacer(at, every, lasts), &samples[i])
		})
	}
	reading.Wait()
	for i := range samples[1:] {
		samples[0].Merge(&samples[i+1])
	}
	return &samples[0], errors.Join(errs...)
}

func readAtPace(ctx context.Context, addr string, p *load.Pacer, h *load.Histogram) error {
	c, err := redistest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for p.Next(ctx) {
		if reply, err := c.Do("GET", "bench:absent"); err != nil || reply != "$-1\r\n" {
			return unexpected("GET", reply, err)
		}
		h.Add(time.Since(p.From))
	}
	return context.Cause(ctx)
}

// printNeighbours prints the quantiles of all rounds together, and how far p99 is from that of the
// row before (changeFrom).
func printNeighbours(out io.Writer, all []*neighbour) {
	rows := [][]string{{"loud user", "sends/s", "run/s", "refused/s", "p50 ms", "p99 ms", "beside the row above", "95 %",
		"Leash CPU ms"}}
	for i, n := range all {
		change, interval := "", ""
		if i > 0 {
			ratio, least, most := n.changeFrom(all[i-1])
			change, interval = percentMore(ratio), percentMore(least)+" to "+percentMore(most)
		}
		rows = append(rows, []string{n.name, fmt.Sprintf("%.0f", middleOf(n.sent)), fmt.Sprintf("%.0f", middleOf(n.ran)),
			fmt.Sprintf("%.0f", middleOf(n.refused)), milliseconds(n.quantile(0.5)),
			fmt.Sprintf("%.3f", n.quantile(0.99).Seconds()*1e3), change, interval, milliseconds(middleOf(n.cpu))})
	}
	printCells(out, rows)
}

func percentMore(ratio float64) string { return fmt.Sprintf("%+.0f %%", 100*(ratio-1)) }

// quantile is a quantile of all rounds together.
func (n *neighbour) quantile(q float64) time.Duration {
	var all load.Histogram
	for _, h := range n.samples {
		all.Merge(h)
	}
	return all.Quantile(q)
}

// changeFrom is the ratio of p99 to that of other, and between which two ratios it lies with a
// probability of 95 %. It compares the two of each round, which were measured one soon after the
// other, and takes the median: a moment in which the machine was busy with something else spoils
// one round, and not the result. The limits come from drawing as many rounds as there are, again
// and again, without the extreme medians (bootstrap).
func (n *neighbour) changeFrom(other *neighbour) (ratio, least, most float64) {
	const draws = 1000
	rounds, drawn := make([]float64, len(n.samples)), make([]float64, len(n.samples))
	for i, h := range n.samples {
		rounds[i] = float64(h.Quantile(0.99)) / float64(other.samples[i].Quantile(0.99))
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same rounds give the same limits
	medians := make([]float64, draws)
	for i := range medians {
		for j := range drawn {
			drawn[j] = rounds[random.IntN(len(rounds))]
		}
		medians[i] = middleOf(drawn)
	}
	slices.Sort(medians)
	return middleOf(rounds), medians[draws/40], medians[draws-1-draws/40]
}
