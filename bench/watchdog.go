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

	"leash/bench/load"
	"leash/bench/testbed"
	"leash/internal/redistest"
)

// runWatchdog is "bench watchdog": it measures and prints to out.
func runWatchdog(ctx context.Context, args []string, out io.Writer) (err error) {
	opt, err := parseWatchOptions(args, out)
	if err != nil {
		return err
	}
	w, err := setUpWatch(ctx, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	rows, err := w.measureAll(ctx)
	fmt.Fprintf(out, "%s\n", machine(append([]string{"watchdog"}, args...)))
	printWatch(out, rows) // even after an error, because the rows took long
	return err
}

// A watch is a Leash in front of a cluster, and the connections that hold locks through it.
type watch struct {
	testbed.Bed
	opt     watchOptions
	nodes   []*redistest.Node
	leash   *testbed.Child
	holders *load.HolderPool
	monitor *load.TTLMonitor
	empty   testbed.Memory // of Leash with all connections and no hold
}

// setUpWatch starts what the options ask for. If it fails, it ends what it has started.
func setUpWatch(ctx context.Context, opt watchOptions) (_ *watch, err error) {
	w := &watch{opt: opt}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if err = w.MakeDir(); err != nil {
		return nil, err
	}
	binary, err := w.LeashBinary(ctx, opt.leash)
	if err != nil {
		return nil, err
	}
	testbed.Progress("starting a cluster")
	// Redis's default: the load must not look like a failure
	c, err := redistest.LaunchCluster(redistest.ClusterOptions{NodeTimeout: 15 * time.Second})
	if err != nil {
		return nil, err
	}
	w.Closers = append(w.Closers, c.Close)
	w.nodes = c.Nodes
	// its log then has a line for each garbage collection
	w.leash, err = w.StartChild(ctx, "env", func(port int) ([]string, error) {
		argv := []string{"GODEBUG=gctrace=1", binary, "--listen", "127.0.0.1:" + strconv.Itoa(port), "--upstream", strings.Join(c.Addrs(), ",")}
		argv = append(argv, "--watchdog-timeout", opt.ttl.String())
		return append(argv, strings.Fields(opt.leashFlags[0])...), nil
	})
	if err != nil {
		return nil, err
	}
	routes, err := testbed.ClusterRoutes(ctx, c)
	if err != nil {
		return nil, err
	}
	w.monitor = load.NewTTLMonitor(routes, opt.ttl)
	w.Closers = append(w.Closers, w.monitor.Close)
	w.holders, err = load.NewHolderPool(w.leash.Addr, opt.connections)
	if err != nil {
		return nil, err
	}
	w.Closers = append(w.Closers, w.holders.Close)
	return w, nil
}

// A watchRow is the measurement at one number of holds.
type watchRow struct {
	holds    int
	after    bool           // the last row, after all holds were released
	taking   load.TTLReport // while they were taken
	seen     load.TTLReport // since
	lost     int
	took     time.Duration  // to acquire the holds that the row before does not have
	core     float64        // how many cores Leash used
	leash    time.Duration  // CPU for each renewal
	redis    time.Duration  // CPU for each renewal, within the scripts
	memory   testbed.Memory // of all holds together
	p50, p99 time.Duration  // of acquires beside them
	direct   time.Duration  // p99 of scripts sent to Redis at the same time
}

// measureAll measures from no holds up to the most, and then without holds again. Acquires beside
// holds are compared with both, because the speed of a machine changes within minutes.
func (w *watch) measureAll(ctx context.Context) (rows []*watchRow, err error) {
	if w.empty, err = w.leash.Memory(); err != nil {
		return nil, err
	}
	for _, holds := range append([]int{0}, w.opt.holds...) {
		r, err := w.measure(ctx, holds)
		if err != nil {
			return rows, w.failed(fmt.Sprintf("%d holds", holds), err)
		}
		rows = append(rows, r)
	}
	if err := w.closePool(ctx); err != nil {
		return rows, w.failed("releasing all", err)
	}
	r, err := w.measure(ctx, 0)
	if err != nil {
		return rows, w.failed("no holds any more", err)
	}
	r.after = true
	return append(rows, r), nil
}

// failed is err, with what bench did and the end of Leash's log.
func (w *watch) failed(what string, err error) error {
	return fmt.Errorf("%s: %w; the log of Leash ends:\n%s", what, err, w.leash.LogTailWithoutGC())
}

// releaseTimeout is how long Leash may take to release a million holds. It is several times the
// measured time.
const releaseTimeout = 5 * time.Minute

// closePool closes the pool's connections, and waits until Leash has released its holds.
func (w *watch) closePool(ctx context.Context) error {
	testbed.Progress("releasing all holds")
	ctx, cancel := context.WithTimeoutCause(ctx, releaseTimeout, fmt.Errorf("some holds were left after %v", releaseTimeout))
	defer cancel()
	// the monitor first, because its holds go away
	if err := errors.Join(w.monitor.Close(), w.holders.Close()); err != nil {
		return err
	}
	for {
		info, err := figures(w.leash.Addr, "leash", "leash_")
		if err != nil || info["holds"] == 0 {
			return err
		}
		if err := load.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (w *watch) measure(ctx context.Context, holds int) (*watchRow, error) {
	r := &watchRow{holds: holds}
	testbed.Progress(fmt.Sprintf("taking %d holds", holds))
	began := time.Now()
	if err := w.holders.Take(ctx, holds, w.monitor.Watch); err != nil {
		return nil, err
	}
	r.took = time.Since(began)
	var err error
	if r.taking, err = w.monitor.Report(); err != nil {
		return nil, err
	}
	lasts := time.Duration(w.opt.periods) * w.opt.period()
	testbed.Progress(fmt.Sprintf("keeping %d holds for %v", holds, lasts))
	if err := w.keep(ctx, r, lasts); err != nil {
		return nil, err
	}
	testbed.Progress(fmt.Sprintf("acquiring beside %d holds for %v", holds, lasts))
	// The checks cost Redis nearly half as much as the renewals, and normal use has no monitor.
	w.monitor.Sparse.Store(true)
	defer w.monitor.Sparse.Store(false)
	var h, direct *load.Histogram
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { h, errs[0] = load.MeasureSteady(ctx, w.leash.Addr, w.opt.rate, lasts) })
	wg.Go(func() { direct, errs[1] = load.MeasureDirect(ctx, w.monitor.Routes, max(w.opt.rate/2, 3), lasts) })
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	r.direct = direct.Quantile(0.99)
	r.p50, r.p99 = h.Quantile(0.50), h.Quantile(0.99)
	info, err := figures(w.leash.Addr, "leash", "leash_")
	if err != nil {
		return nil, err
	}
	r.seen, err = w.monitor.Report()
	for name, n := range info {
		if strings.HasPrefix(name, "locks_lost_") {
			r.lost += int(n)
		}
	}
	r.lost = max(r.lost, holds-int(info["holds"]), r.taking.Missing, r.seen.Missing)
	return r, err
}

// keep measures what the holds cost without other load.
func (w *watch) keep(ctx context.Context, r *watchRow, lasts time.Duration) error {
	before, err := w.costs()
	if err != nil {
		return err
	}
	if err := load.Pause(ctx, lasts); err != nil {
		return err
	}
	after, err := w.costs()
	if err != nil {
		return err
	}
	r.core = (after.leash - before.leash).Seconds() / after.at.Sub(before.at).Seconds()
	if n := after.renewals - before.renewals; n > 0 {
		r.leash = (after.leash - before.leash) / time.Duration(n)
		r.redis = (after.scripts - before.scripts) / time.Duration(n)
	}
	m, err := w.leash.Memory()
	r.memory = testbed.Memory{Heap: m.Heap - w.empty.Heap, Resident: m.Resident - w.empty.Resident}
	return err
}

// costs are the CPU time used since the start.
type costs struct {
	at       time.Time
	leash    time.Duration // CPU
	scripts  time.Duration // CPU of Redis
	renewals int64
}

func (w *watch) costs() (c costs, err error) {
	info, err := figures(w.leash.Addr, "leash", "leash_")
	if err != nil {
		return c, err
	}
	c.renewals = info["renewals"]
	for _, n := range w.nodes {
		stats, err := figures(n.Addr, "commandstats", "cmdstat_")
		if err != nil {
			return c, err
		}
		c.scripts += time.Duration(stats["evalsha"]) * time.Microsecond
	}
	c.at = time.Now()
	c.leash, err = testbed.CPUTimes(w.leash.PID())
	return c, err
}

// figures are the numbers in a section of INFO whose names begin with prefix. For a command, it is
// the time in µs.
func figures(addr, section, prefix string) (map[string]int64, error) {
	c, err := redistest.Dial(addr)
	if err != nil {
		return nil, err
	}
	text, err := c.Do("INFO", section)
	if err := errors.Join(err, c.Close()); err != nil {
		return nil, err
	}
	out := make(map[string]int64)
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, prefix)), ":")
		if !ok || !strings.HasPrefix(line, prefix) {
			continue
		}
		if _, usec, ok := strings.Cut(value, "usec="); ok {
			value, _, _ = strings.Cut(usec, ",")
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			out[name] = n
		}
	}
	return out, nil
}
