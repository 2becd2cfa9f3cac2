package main

import (
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
	"leash/internal/redistest"
)

// ttl is the watchdog timeout of the Leashes.
const ttl = 3 * time.Second

// testbed is what is tested: a cluster whose nodes are reached through proxies, and two Leashes
// before it, with a proxy before each.
type testbed struct {
	keys      []string // of the locks
	cluster   *redistest.Cluster
	clocks    bool // can be stepped
	leashes   []*leashtest.Leash
	fronts    []*faultproxy.Proxy // where clients connect to, one a Leash
	processes processes
	counters  counters
	log       *slog.Logger
	closers   []func() error
}

// setUp builds Leash, broken as sabotage says, and starts everything, each Leash with some flags
// more.
func setUp(ctx context.Context, keys []string, race bool, sabotage *sabotage, log *slog.Logger, extra ...string) (_ *testbed, err error) {
	b := &testbed{keys: keys, log: log}
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
	binary, err := leashtest.BuildWith(ctx, dir, leashtest.BuildOptions{Race: race, Overlay: overlay})
	if err != nil {
		return nil, err
	}
	// A node that is silent for less than the node timeout is not failed over: what Redis forgets
	// is then our doing.
	noClocks := redistest.ClocksWork()
	if noClocks != nil {
		log.Warn("no clock can be stepped here", "err", noClocks)
	}
	b.clocks = noClocks == nil
	b.cluster, err = redistest.LaunchCluster(redistest.ClusterOptions{
		Replicas: 1, NodeTimeout: 15 * time.Second, FaultProxy: true, Clock: b.clocks, Args: []string{"--enable-debug-command", "yes"},
	})
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.cluster.Close)
	for range 2 {
		l, err := leashtest.Start(ctx, binary, dir, append(extra, "--upstream", strings.Join(b.cluster.Addrs(), ","),
			"--watchdog-timeout", ttl.String(), "--upstream-timeout", "3s", "--drain-timeout", "1s")...)
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

// close ends everything, last things first.
func (b *testbed) close() error {
	var errs []error
	for i := len(b.closers) - 1; i >= 0; i-- {
		errs = append(errs, b.closers[i]())
	}
	b.closers = nil
	return errors.Join(errs...)
}

// prepare makes the semaphores that are not there.
func (b *testbed) prepare() error {
	c, err := redistest.Dial(b.leashes[0].Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, key := range b.keys {
		if kindOf(key) != "sem" {
			continue
		}
		if reply, err := c.Do("SEM.INIT", key, strconv.Itoa(permits)); err != nil || reply[0] != ':' {
			return errors.Join(err, fmt.Errorf("SEM.INIT was answered %q", reply))
		}
	}
	return nil
}

// logs are the files of the Leashes' logs.
func (b *testbed) logs() (files []string) {
	for _, l := range b.leashes {
		files = append(files, l.Log)
	}
	return files
}

// realKeys are the names in Redis of the locks.
func (b *testbed) realKeys() (keys []string) {
	for _, key := range b.keys {
		switch {
		case key == quorumKey:
			keys = append(keys, quorumKeys...)
		case !isCounter(key): // which have other names as time goes on
			keys = append(keys, key)
		}
	}
	return keys
}
