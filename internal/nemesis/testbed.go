package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/leashtest"
	"leash/internal/nemesis/history"
	"leash/internal/redistest"
)

// testbed is the system under test: a cluster and two Leashes. There is a proxy before each node
// and before each Leash.
type testbed struct {
	keys      []string // the locks
	cluster   *redistest.Cluster
	clocks    bool // the clocks of Redis can be stepped
	leashes   []*leashtest.Leash
	fronts    []*faultproxy.Proxy // clients connect to these; there is one for each Leash
	processes processes
	counters  counters
	log       *slog.Logger
	closers   []func() error
}

// setUp builds Leash with the sabotage, and starts everything. It adds the extra flags to those of
// each Leash.
func setUp(
	ctx context.Context, opt options, sabotage *sabotage, log *slog.Logger, extra ...string,
) (_ *testbed, err error) {
	b := &testbed{keys: keysOf(opt.kinds), log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	dir, err := os.MkdirTemp("", "leash-nemesis-")
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, func() error { return os.RemoveAll(dir) })
	overlay, err := sabotage.overlay(ctx, dir)
	if err != nil {
		return nil, err
	}
	binary, err := leashtest.BuildWith(ctx, dir, leashtest.BuildOptions{Race: opt.race, Overlay: overlay})
	if err != nil {
		return nil, err
	}
	noClocks := redistest.ClocksWork()
	if noClocks != nil {
		log.Warn("no clock can be stepped here", "err", noClocks)
	}
	b.clocks = noClocks == nil
	// The cluster does not fail over a node that is silent for less than the node timeout. So Redis
	// loses locks only because of the faults.
	b.cluster, err = redistest.LaunchCluster(redistest.ClusterOptions{
		Replicas: 1, NodeTimeout: 15 * time.Second, FaultProxy: true, Clock: b.clocks, Args: []string{"--enable-debug-command", "yes"},
	})
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.cluster.Close)
	for _, binary := range []string{binary, cmp.Or(opt.other, binary)} {
		l, err := leashtest.Start(ctx, binary, dir, append(extra, "--upstream", strings.Join(b.cluster.Addrs(), ","),
			"--watchdog-timeout", history.TTL.String(), "--upstream-timeout", "3s", "--drain-timeout", "1s")...)
		if err != nil {
			return nil, err
		}
		b.leashes = append(b.leashes, l)
		b.closers = append(b.closers, l.Stop)
		front, err := faultproxy.New(l.Addr)
		if err != nil {
			return nil, err
		}
		b.fronts = append(b.fronts, front)
		b.closers = append(b.closers, front.Close)
	}
	return b, b.prepare()
}

// close ends everything, in reverse order.
func (b *testbed) close() error {
	var errs []error
	for i := len(b.closers) - 1; i >= 0; i-- {
		errs = append(errs, b.closers[i]())
	}
	b.closers = nil
	return errors.Join(errs...)
}

// prepare creates the semaphores that do not exist.
func (b *testbed) prepare() error {
	c, err := redistest.Dial(b.leashes[0].Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, key := range b.keys {
		if history.KindOf(key) != "sem" {
			continue
		}
		if reply, err := c.Do("SEM.INIT", key, strconv.Itoa(history.Permits)); err != nil || reply[0] != ':' {
			return errors.Join(err, fmt.Errorf("SEM.INIT was answered %q", reply))
		}
	}
	return nil
}

// logs returns the log files of the Leashes.
func (b *testbed) logs() (files []string) {
	for _, l := range b.leashes {
		files = append(files, l.Log)
	}
	return files
}

// realKeys returns the locks' keys in Redis.
func (b *testbed) realKeys() (keys []string) {
	for _, key := range b.keys {
		switch {
		case key == history.QuorumKey:
			keys = append(keys, history.QuorumKeys...)
		case !history.IsCounter(key): // the keys of counters and latches change during the run
			keys = append(keys, key)
		}
	}
	return keys
}
