package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"leash/internal/redistest"
)

// A target is a server that a load can run against.
type target struct {
	name    string
	routes  []route
	proxies []int // process ids of the proxies, if any
	redis   []int // process ids
	load    int   // the process that sends, 0 when it is this one
}

// A testbed is everything that was started for the measurements.
type testbed struct {
	dir     string // temporary: the binary of Leash, configurations, logs
	targets []target
	closers []func() error // in the order in which things were started
}

// setUp starts what the options ask for. If it fails, it ends what it has started.
func setUp(ctx context.Context, opt options) (_ *testbed, err error) {
	b := &testbed{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err = b.makeDir(); err != nil {
		return nil, err
	}

	if opt.wants(toLeash) || opt.wants(toLeashCluster) || opt.wants(toLeashTLS) {
		if opt.leash, err = b.leashBinary(ctx, opt); err != nil {
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

// launchRedis starts a Redis, which close ends.
func (b *testbed) launchRedis() (*redistest.Server, error) {
	redis, err := redistest.Launch(redistest.Options{})
	if err == nil {
		b.closers = append(b.closers, redis.Close)
	}
	return redis, err
}

// makeDir makes the temporary directory, which close removes.
func (b *testbed) makeDir() (err error) {
	if b.dir, err = os.MkdirTemp("", "leash-bench-"); err == nil {
		b.closers = append(b.closers, func() error { return os.RemoveAll(b.dir) })
	}
	return err
}

// close ends everything, in the reverse order of starting.
func (b *testbed) close() error {
	var errs []error
	for _, f := range slices.Backward(b.closers) {
		errs = append(errs, f())
	}
	b.closers = nil
	return errors.Join(errs...)
}

// leashBinary returns the binary to measure, built from this module if none was named.
func (b *testbed) leashBinary(ctx context.Context, opt options) (string, error) {
	if opt.leash != "" {
		return filepath.Abs(opt.leash)
	}
	path := filepath.Join(b.dir, "leash")
	progress("building leash")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", path, "leash")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build leash: %w\n%s", err, out)
	}
	return path, nil
}

// startStandalone starts a Redis and the proxies in front of it.
func (b *testbed) startStandalone(ctx context.Context, opt options) error {
	progress("starting a redis")
	s, err := b.launchRedis()
	if err != nil {
		return err
	}
	redis := []int{s.Pid()}

	if opt.wants(toRedis) {
		b.targets = append(b.targets, target{name: toRedis, routes: []route{{addr: s.Addr}}, redis: redis})
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
func (b *testbed) startCluster(ctx context.Context, opt options) error {
	progress("starting a cluster")
	c, err := redistest.LaunchCluster(redistest.ClusterOptions{})
	if err != nil {
		return err
	}
	b.closers = append(b.closers, c.Close)
	var redis []int
	for _, n := range c.Nodes {
		redis = append(redis, n.Pid())
	}

	if opt.wants(toCluster) {
		routes, err := clusterRoutes(ctx, c)
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

// clusterRoutes is a route to each master, for the keys in its slots.
func clusterRoutes(ctx context.Context, c *redistest.Cluster) ([]route, error) {
	//lint:ignore SA1019 CLUSTER SHARDS, its successor, is unknown to Redis 6
	slots, err := c.Nodes[0].Client().ClusterSlots(ctx).Result()
	if err != nil {
		return nil, err
	}
	owner := make([]string, redistest.SlotCount)
	for _, s := range slots {
		for slot := s.Start; slot <= s.End; slot++ {
			owner[slot] = s.Nodes[0].Addr
		}
	}
	var routes []route
	for _, addr := range c.Addrs() {
		routes = append(routes, route{addr: addr, owns: func(key string) bool {
			return owner[redistest.Slot(key)] == addr
		}})
	}
	return routes, nil
}

// startLeashes starts a Leash for each set of its flags.
func (b *testbed) startLeashes(ctx context.Context, opt options, name, upstream string, redis []int) error {
	for _, flags := range opt.leashFlags {
		extra := strings.Fields(flags)
		c, err := b.startChild(ctx, opt.leash, func(port int) ([]string, error) {
			return append([]string{"--listen", "127.0.0.1:" + strconv.Itoa(port), "--upstream", upstream}, extra...), nil
		})
		if err != nil {
			return err
		}
		full := strings.Join(append([]string{name}, extra...), " ")
		b.targets = append(b.targets, target{name: full, routes: []route{{addr: c.addr}}, proxies: []int{c.pid()}, redis: redis})
	}
	return nil
}

func (b *testbed) startChild(ctx context.Context, name string, args func(port int) ([]string, error)) (*child, error) {
	progress("starting " + filepath.Base(name))
	c, err := startChild(ctx, b.dir, name, args)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, c.stop)
	return c, nil
}

// progress prints to standard error what bench does.
func progress(what string) {
	fmt.Fprintln(os.Stderr, "bench:", what)
}
