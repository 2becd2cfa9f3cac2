package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"leash/bench/load"
	"leash/bench/testbed"
	"leash/internal/redistest"
)

// A target is a server that a load can run against.
type target struct {
	name    string
	routes  []load.Route
	proxies []int // process ids of the proxies, if any
	redis   []int // process ids
	load    int   // the process that sends, 0 when it is this one
}

// relays are the targets of the measurements of the relay.
type relays struct {
	testbed.Bed
	targets []target
}

// setUp starts what the options ask for. If it fails, it ends what it has started.
func setUp(ctx context.Context, opt options) (_ *relays, err error) {
	b := &relays{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if err = b.MakeDir(); err != nil {
		return nil, err
	}

	if opt.wants(toLeash) || opt.wants(toLeashCluster) || opt.wants(toLeashTLS) {
		if opt.leash, err = b.LeashBinary(ctx, opt.leash); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc([]string{toRedis, toNutcracker, toLeash, toHAProxyTLS, toLeashTLS}, opt.wants) {
		if err := b.startStandalone(ctx, opt); err != nil {
			return nil, err
		}
	}
	if opt.wants(toCluster) || opt.wants(toLeashCluster) {
		if err := b.startCluster(ctx, opt); err != nil {
			return nil, err
		}
	}
	if len(b.targets) == 0 {
		return nil, errors.New("nothing to measure")
	}
	return b, nil
}

// startStandalone starts a Redis and the proxies in front of it.
func (b *relays) startStandalone(ctx context.Context, opt options) error {
	testbed.Progress("starting a redis")
	s, err := b.LaunchRedis()
	if err != nil {
		return err
	}
	redis := []int{s.Pid()}

	if opt.wants(toRedis) {
		b.targets = append(b.targets, target{name: toRedis, routes: []load.Route{{Addr: s.Addr}}, redis: redis})
	}
	if opt.wants(toNutcracker) {
		if err := b.startNutcracker(ctx, opt, s.Addr, redis); err != nil {
			return err
		}
	}
	if opt.wants(toLeash) {
		if err := b.startLeashes(ctx, opt, toLeash, s.Addr, redis); err != nil {
			return err
		}
	}
	if opt.wants(toHAProxyTLS) || opt.wants(toLeashTLS) {
		return b.startTLS(ctx, opt, s.Addr, redis)
	}
	return nil
}

// startCluster starts a cluster of three masters and the proxies in front of it.
func (b *relays) startCluster(ctx context.Context, opt options) error {
	testbed.Progress("starting a cluster")
	c, err := redistest.LaunchCluster(redistest.ClusterOptions{})
	if err != nil {
		return err
	}
	b.Closers = append(b.Closers, c.Close)
	var redis []int
	for _, n := range c.Nodes {
		redis = append(redis, n.Pid())
	}

	if opt.wants(toCluster) {
		routes, err := testbed.ClusterRoutes(ctx, c)
		if err != nil {
			return err
		}
		b.targets = append(b.targets, target{name: toCluster, routes: routes, redis: redis})
	}
	if opt.wants(toLeashCluster) {
		return b.startLeashes(ctx, opt, toLeashCluster, strings.Join(c.Addrs(), ","), redis)
	}
	return nil
}

// startLeashes starts a Leash for each set of its flags.
func (b *relays) startLeashes(ctx context.Context, opt options, name, upstream string, redis []int) error {
	for _, flags := range opt.leashFlags {
		extra := strings.Fields(flags)
		c, err := b.StartChild(ctx, opt.leash, func(port int) ([]string, error) {
			return append([]string{"--listen", "127.0.0.1:" + strconv.Itoa(port), "--upstream", upstream}, extra...), nil
		})
		if err != nil {
			return err
		}
		full := strings.Join(append([]string{name}, extra...), " ")
		b.targets = append(b.targets, target{name: full, routes: []load.Route{{Addr: c.Addr}}, proxies: []int{c.PID()}, redis: redis})
	}
	return nil
}
