package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"leash/bench/load"
	"leash/bench/testbed"
	"leash/internal/redistest"
)

const stallsUsage = `Bench stalls measures the GETs of clients beside one command that Redis does not answer for a while: a SET during
CLIENT PAUSE WRITE, and a script that does not end, which Redis answers BUSY for. Directly, and through Leash.

Usage: go run ./bench stalls [flags]

`

// stallsOptions are the flags of "bench stalls".
type stallsOptions struct {
	options
	pause, script time.Duration
}

func parseStallsOptions(args []string, out io.Writer) (stallsOptions, error) {
	var opt stallsOptions
	fs := pflag.NewFlagSet("bench stalls", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.IntVar(&opt.clients, "clients", 10, "connections that send GETs, each the next one 1 ms after a reply")
	fs.DurationVar(&opt.pause, "pause", 3*time.Second, "how long writes are paused")
	fs.DurationVar(&opt.script, "script", 10*time.Second, "how long the script runs")
	fs.StringVar(&opt.leash, "leash", "", "`binary` of Leash to measure (default: built from this module)")
	fs.Usage = func() { fmt.Fprint(out, stallsUsage, fs.FlagUsages()) }
	err := fs.Parse(args)
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return opt, errors.Join(err, within("clients", opt.clients, 1, 1000))
}

// A stall is a command that is sent to addr and blocks Redis for the time lasts. admin is a
// connection to Redis itself.
type stall struct {
	name  string
	lasts time.Duration
	begin func(admin, blocked *redistest.Client) error
	end   func(admin *redistest.Client) error
}

func (o stallsOptions) stalls() []stall {
	return []stall{
		{"paused SET", o.pause, func(admin, blocked *redistest.Client) error {
			_, err := admin.Do("CLIENT", "PAUSE", strconv.FormatInt(o.pause.Milliseconds(), 10), "WRITE")
			return errors.Join(err, blocked.Send(redistest.Command("SET", "bench:paused", "v")))
		}, func(*redistest.Client) error { return nil }},
		{"script", o.script, func(_, blocked *redistest.Client) error {
			return blocked.Send(redistest.Command("EVAL", "while true do end", "0"))
		}, func(admin *redistest.Client) error {
			_, err := admin.Do("SCRIPT", "KILL")
			return err
		}},
	}
}

// runStalls is "bench stalls": it measures and prints to out.
func runStalls(ctx context.Context, args []string, out io.Writer) (err error) {
	opt, err := parseStallsOptions(args, out)
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
	c, err := b.StartChild(ctx, opt.leash, func(port int) ([]string, error) {
		return []string{"--listen", "127.0.0.1:" + strconv.Itoa(port), "--upstream", redis.Addr}, nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n%-12s %-8s %9s %9s %9s %9s %9s\n", machine(append([]string{"stalls"}, args...)), "beside", "target", "replies", "BUSY", "p50", "p99", "longest")
	for _, s := range opt.stalls() {
		for _, t := range []target{{name: toRedis, routes: []load.Route{{Addr: redis.Addr}}}, {name: toLeash, routes: []load.Route{{Addr: c.Addr}}}} {
			r, err := s.measure(ctx, redis.Addr, t.routes[0].Addr, opt.clients)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.name, t.name, err)
			}
			fmt.Fprintf(out, "%-12s %-8s %9d %9d %9v %9v %9v\n", s.name, t.name, r.replies, r.busy, r.latency.Quantile(0.5), r.latency.Quantile(0.99), r.longest.Round(time.Millisecond))
		}
	}
	return nil
}

// stallResult is what clients measured during a stall.
type stallResult struct {
	latency       load.Histogram
	replies, busy int
	longest       time.Duration
}

// measure lets clients read during the stall.
func (s stall) measure(ctx context.Context, redis, addr string, clients int) (*stallResult, error) {
	admin, err := redistest.Dial(redis)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	blocked, err := redistest.Dial(addr)
	if err != nil {
		return nil, err
	}
	defer blocked.Close()
	blocked.Timeout, admin.Timeout = 2*s.lasts+time.Minute, 2*s.lasts+time.Minute
	all, errs := make([]stallResult, clients), make([]error, clients)
	end := time.Now().Add(s.lasts)
	var reading sync.WaitGroup
	for i := range clients {
		reading.Go(func() { errs[i] = all[i].read(ctx, addr, end) })
	}
	err = s.begin(admin, blocked)
	reading.Wait()
	if err := errors.Join(append(errs, err, s.end(admin))...); err != nil {
		return nil, err
	}
	if _, err := blocked.Read(); err != nil {
		return nil, err
	}
	var r stallResult
	for i := range all {
		r.latency.Merge(&all[i].latency)
		r.replies, r.busy, r.longest = r.replies+all[i].replies, r.busy+all[i].busy, max(r.longest, all[i].longest)
	}
	return &r, nil
}

// read sends GETs until the time is over.
func (r *stallResult) read(ctx context.Context, addr string, end time.Time) error {
	c, err := redistest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.Timeout = 2 * time.Minute
	for time.Now().Before(end) {
		began := time.Now()
		reply, err := c.Do("GET", "bench:key")
		if err != nil {
			return err
		}
		took := time.Since(began)
		r.latency.Add(took)
		r.replies++
		r.longest = max(r.longest, took)
		if strings.HasPrefix(reply, "-BUSY ") {
			r.busy++
		}
		if load.Pause(ctx, time.Millisecond) != nil {
			return ctx.Err()
		}
	}
	return nil
}
