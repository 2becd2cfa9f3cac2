package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"leash/internal/faultproxy"
	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// ttl is the watchdog timeout of the Leashes.
const ttl = 3 * time.Second

// bed is what is tested: a cluster whose nodes are reached through proxies, and two Leashes before it, with a proxy
// before each.
type bed struct {
	keys    []string // of the locks
	cluster *redistest.Cluster
	leashes []*leashtest.Leash
	fronts  []*faultproxy.Proxy // where clients connect to, one a Leash
	closers []func() error
}

func setUp(ctx context.Context, keys []string, race bool) (_ *bed, err error) {
	b := &bed{keys: keys}
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
	binary, err := leashtest.Build(ctx, dir, race)
	if err != nil {
		return nil, err
	}
	// A node that is silent for less than this is not failed over: what Redis forgets is then our doing.
	b.cluster, err = redistest.LaunchCluster(redistest.ClusterOptions{Replicas: 1, NodeTimeout: 15 * time.Second, FaultProxy: true})
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.cluster.Close)
	for range 2 {
		l, err := leashtest.Start(ctx, binary, dir, "--upstream", strings.Join(b.cluster.Addrs(), ","),
			"--watchdog-timeout", ttl.String(), "--upstream-timeout", "3s", "--drain-timeout", "1s")
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
	return b, nil
}

// close ends everything, last things first.
func (b *bed) close() error {
	var errs []error
	for i := len(b.closers) - 1; i >= 0; i-- {
		errs = append(errs, b.closers[i]())
	}
	b.closers = nil
	return errors.Join(errs...)
}
