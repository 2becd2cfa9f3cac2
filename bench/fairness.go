package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"leash/bench/load"
	"leash/bench/testbed"
	"leash/internal/faultproxy"
	"leash/internal/redistest"
)

// runFairness is "bench fairness": it measures and prints to out.
func runFairness(ctx context.Context, args []string, out io.Writer) (err error) {
	opt, err := parseFairnessOptions(args, out)
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
	fmt.Fprintf(out, "%s%-8s %10s %8s %8s %9s %9s %9s %7s %6s\n", machine(append([]string{"fairness"}, args...)),
		"kind", "round trip", "clients", "grants", "p50", "p99", "longest", "of mean", "calls")
	for _, c := range contests {
		if !slices.Contains(opt.kinds, c.name) {
			continue
		}
		for _, sites := range siteGroups {
			f, err := c.measure(ctx, b, opt, sites)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			f.print(out, c.name, sites)
		}
	}
	return nil
}

// fairness is the result of a contest.
type fairness struct {
	waits []load.Histogram // by site
	most  []time.Duration  // longest wait, by site
	calls float64          // scripts for a grant
}

// print prints a row for each site.
func (f *fairness) print(out io.Writer, kind string, sites []site) {
	var sum time.Duration
	var grants uint64
	for i := range sites {
		grants += f.waits[i].Total
		sum += f.waits[i].Sum()
	}
	mean := sum / time.Duration(max(1, grants))
	for i, s := range sites {
		w := &f.waits[i]
		fmt.Fprintf(out, "%-8s %10v %8d %8d %9v %9v %9v %7.2f", kind, s.roundTrip, s.clients, w.Total,
			w.Quantile(0.5).Round(10*time.Microsecond), w.Quantile(0.99).Round(10*time.Microsecond), f.most[i].Round(10*time.Microsecond),
			float64(f.most[i])/float64(max(1, mean)))
		if i == 0 {
			fmt.Fprintf(out, " %6.2f", f.calls)
		}
		fmt.Fprintln(out)
		kind = ""
	}
}

// measure lets the clients of the sites compete, on a new Redis with new Leashes.
func (c contest) measure(ctx context.Context, b *testbed.Bed, opt fairnessOptions, sites []site) (_ *fairness, err error) {
	own := &testbed.Bed{Dir: b.Dir}
	defer func() { err = errors.Join(err, own.Close()) }()
	redis, err := own.LaunchRedis()
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, s := range sites {
		addr, err := startSite(ctx, own, opt.leash, redis.Addr, s)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	admin, err := redistest.Dial(redis.Addr)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if c.prepare != nil {
		first, err := redistest.Dial(addrs[0])
		if err != nil {
			return nil, err
		}
		defer first.Close()
		if reply, err := first.Do(c.prepare...); err != nil || reply != ":1\r\n" {
			return nil, unexpected(c.prepare[0], reply, err)
		}
	}
	return c.compete(ctx, opt, sites, addrs, admin)
}

// startSite starts a Leash that is the site's round trip away from Redis.
func startSite(ctx context.Context, b *testbed.Bed, leash, redis string, s site) (addr string, err error) {
	p, err := faultproxy.New(redis)
	if err != nil {
		return "", err
	}
	b.Closers = append(b.Closers, p.Close)
	p.Delay(s.roundTrip / 2)
	child, err := b.StartChild(ctx, leash, func(port int) ([]string, error) {
		return []string{"--listen", "127.0.0.1:" + strconv.Itoa(port), "--upstream", p.Addr(), "--upstream-mode", "standalone"}, nil
	})
	if err != nil {
		return "", err
	}
	return child.Addr, nil
}

// compete runs all clients, first for a second that does not count.
func (c contest) compete(ctx context.Context, opt fairnessOptions, sites []site, addrs []string, admin *redistest.Client) (*fairness, error) {
	const warmup = time.Second
	f := &fairness{waits: make([]load.Histogram, len(sites)), most: make([]time.Duration, len(sites))}
	from := time.Now().Add(warmup)
	end := from.Add(opt.round)
	var holders atomic.Int32
	var mu sync.Mutex // guards f
	var errs []error
	var competing sync.WaitGroup
	for i, s := range sites {
		for range s.clients {
			competing.Go(func() {
				one := competitor{contest: c, hold: opt.hold, from: from, end: end, holders: &holders}
				err := one.run(ctx, addrs[i])
				mu.Lock()
				defer mu.Unlock()
				f.waits[i].Merge(&one.waits)
				f.most[i], errs = max(f.most[i], one.most), append(errs, err)
			})
		}
	}
	before, beforeErr := scriptCalls(ctx, admin, from)
	after, afterErr := scriptCalls(ctx, admin, end)
	competing.Wait()
	if err := errors.Join(append(errs, beforeErr, afterErr)...); err != nil {
		return nil, err
	}
	var grants uint64
	for i := range f.waits {
		grants += f.waits[i].Total
	}
	f.calls = float64(after-before) / float64(max(1, grants))
	return f, nil
}

// scriptCalls is how many scripts Redis has run so far.
func scriptCalls(ctx context.Context, admin *redistest.Client, at time.Time) (calls int, err error) {
	if err := load.Pause(ctx, time.Until(at)); err != nil {
		return 0, err
	}
	stats, err := admin.Do("INFO", "commandstats")
	for _, name := range []string{"eval", "evalsha"} {
		if _, rest, ok := strings.Cut(stats, "cmdstat_"+name+":calls="); ok {
			n, _, _ := strings.Cut(rest, ",")
			count, numberErr := strconv.Atoi(n)
			calls, err = calls+count, errors.Join(err, numberErr)
		}
	}
	return calls, err
}

// A competitor is one client of a contest.
type competitor struct {
	contest
	hold      time.Duration
	from, end time.Time // what counts
	holders   *atomic.Int32

	waits load.Histogram
	most  time.Duration
}

// run acquires, holds and releases until the end.
func (c *competitor) run(ctx context.Context, addr string) error {
	client, err := redistest.Dial(addr)
	if err != nil {
		return err
	}
	defer client.Close()
	client.Timeout = time.Until(c.end) + time.Minute
	for {
		began := time.Now()
		if !began.Before(c.end) {
			return nil
		}
		if reply, err := client.Do(c.acquire...); err != nil || strings.HasPrefix(reply, "-") {
			return unexpected(c.acquire[0], reply, err)
		}
		if c.holders.Add(1) > 1 {
			return errors.New("two clients hold the lock")
		}
		if took := time.Since(began); began.Add(took).After(c.from) && began.Add(took).Before(c.end) {
			c.waits.Add(took)
			c.most = max(c.most, took)
		}
		if err := load.Pause(ctx, c.hold); err != nil {
			return err
		}
		c.holders.Add(-1)
		if reply, err := client.Do(c.release...); err != nil || reply != ":1\r\n" {
			return unexpected(c.release[0], reply, err)
		}
	}
}

// unexpected is the error for a command that failed or had a wrong reply.
func unexpected(command, reply string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return fmt.Errorf("%s was answered %q", command, reply)
}
