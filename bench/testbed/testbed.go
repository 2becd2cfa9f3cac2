// Package testbed starts and ends what bench measures: Redis, Leash and other programs.
package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"leash/bench/load"
	"leash/internal/redistest"
)

// A Bed is everything that was started for the measurements.
type Bed struct {
	Dir     string         // temporary: the binary of Leash, configurations, logs
	Closers []func() error // in the order in which things were started
}

// LaunchRedis starts a Redis, which close ends.
func (b *Bed) LaunchRedis() (*redistest.Server, error) {
	redis, err := redistest.Launch(redistest.Options{})
	if err == nil {
		b.Closers = append(b.Closers, redis.Close)
	}
	return redis, err
}

// MakeDir makes the temporary directory, which close removes.
func (b *Bed) MakeDir() (err error) {
	if b.Dir, err = os.MkdirTemp("", "leash-bench-"); err == nil {
		b.Closers = append(b.Closers, func() error { return os.RemoveAll(b.Dir) })
	}
	return err
}

// Close ends everything, in the reverse order of starting.
func (b *Bed) Close() error {
	var errs []error
	for _, f := range slices.Backward(b.Closers) {
		errs = append(errs, f())
	}
	b.Closers = nil
	return errors.Join(errs...)
}

// LeashBinary returns the binary to measure, built from this module if none was named.
func (b *Bed) LeashBinary(ctx context.Context, named string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	path := filepath.Join(b.Dir, "leash")
	Progress("building leash")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", path, "leash")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build leash: %w\n%s", err, out)
	}
	return path, nil
}

// ClusterRoutes is a route to each master, for the keys in its slots.
func ClusterRoutes(ctx context.Context, c *redistest.Cluster) ([]load.Route, error) {
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
	var routes []load.Route
	for _, addr := range c.Addrs() {
		routes = append(routes, load.Route{Addr: addr, Owns: func(key string) bool {
			return owner[redistest.Slot(key)] == addr
		}})
	}
	return routes, nil
}

// StartChild starts a program, see [StartChild], which Close ends.
func (b *Bed) StartChild(ctx context.Context, name string, args func(port int) ([]string, error)) (*Child, error) {
	Progress("starting " + filepath.Base(name))
	c, err := startChild(ctx, b.Dir, name, args)
	if err != nil {
		return nil, err
	}
	b.Closers = append(b.Closers, c.stop)
	return c, nil
}

// Progress prints to standard error what bench does.
func Progress(what string) {
	fmt.Fprintln(os.Stderr, "bench:", what)
}
