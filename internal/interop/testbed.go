package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"leash/internal/leashtest"
	"leash/internal/redistest"
)

// A target is a Redis or a Leash that a program can run against.
type target struct {
	name       string
	mode       string // of the program
	host, port string
	masters    []*redistest.Server // the masters of the upstream
	leash      *leashtest.Leash    // nil without Leash
	second     *leashtest.Leash    // beside leash; nil when no program needs it
}

// leashes are the Leashes of a target.
func (t target) leashes() (all []*leashtest.Leash) {
	for _, l := range []*leashtest.Leash{t.leash, t.second} {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
}

// upstream is the value of Leash's --upstream.
func (t target) upstream() string {
	var addrs []string
	for _, s := range t.masters {
		addrs = append(addrs, s.Addr)
	}
	return strings.Join(addrs, ",")
}

// empty makes every master forget all keys.
func (t target) empty(ctx context.Context) error {
	for _, s := range t.masters {
		if err := s.Client().FlushAll(ctx).Err(); err != nil {
			return fmt.Errorf("empty %s: %w", s.Addr, err)
		}
	}
	return nil
}

// A testbed is all servers that were started for the programs.
type testbed struct {
	dir     string // temporary: Leash and its logs
	targets []target
	closers []func() error // in the order in which things were started
}

// setUp starts a Redis, and a cluster of three masters with a replica each. It starts a Leash in
// front of each, unless the programs are to talk to Redis itself. If it fails, it ends what it has
// started.
func setUp(ctx context.Context, opt options) (_ *testbed, err error) {
	b := &testbed{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "leash-interop-"); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, func() error { return os.RemoveAll(b.dir) })

	s, err := redistest.Launch(redistest.Options{})
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, s.Close)
	c, err := redistest.LaunchCluster(redistest.ClusterOptions{Replicas: 1})
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, c.Close)
	var masters []*redistest.Server
	for _, n := range c.Masters() {
		masters = append(masters, n.Server)
	}

	if err := addUser(ctx, append([]*redistest.Server{s}, servers(c)...)); err != nil {
		return nil, err
	}

	if opt.direct {
		b.add("nothing", standalone, s.Addr, nil, s)
		b.add("nothing", cluster, c.Addrs()[0], nil, masters...)
		return b, nil
	}
	binary, err := leashtest.Build(ctx, b.dir, false)
	if err != nil {
		return nil, err
	}
	pair := slices.ContainsFunc(clients, func(c client) bool { return c.pair && opt.wants(c) })
	beforeRedis, err := b.startLeashes(ctx, binary, pair, s.Addr)
	if err != nil {
		return nil, err
	}
	beforeCluster, err := b.startLeashes(ctx, binary, pair, c.Addrs()...)
	if err != nil {
		return nil, err
	}
	b.add("leash before a redis", standalone, beforeRedis[0].Addr, beforeRedis, s)
	b.add("leash before a cluster", standalone, beforeCluster[0].Addr, beforeCluster, masters...)
	b.add("leash before a cluster", cluster, beforeCluster[0].Addr, beforeCluster, masters...)
	return b, nil
}

// addUser adds the user of docs/clients.md to the servers.
func addUser(ctx context.Context, to []*redistest.Server) error {
	for _, s := range to {
		err := s.Client().ACLSetUser(ctx, "shop", "on", ">open-sesame", "~*", "&*", "+@all").Err()
		if err != nil {
			return fmt.Errorf("add a user to %s: %w", s.Addr, err)
		}
	}
	return nil
}

// servers are all nodes of a cluster.
func servers(c *redistest.Cluster) (all []*redistest.Server) {
	for _, n := range c.Nodes {
		all = append(all, n.Server)
	}
	return all
}

func (b *testbed) add(name, mode, addr string, leashes []*leashtest.Leash, masters ...*redistest.Server) {
	host, port, _ := net.SplitHostPort(addr)
	t := target{name: name, mode: mode, host: host, port: port, masters: masters}
	if len(leashes) > 0 {
		t.leash = leashes[0]
	}
	if len(leashes) > 1 {
		t.second = leashes[1]
	}
	b.targets = append(b.targets, t)
}

// targetsOf are the targets for which the client has a mode and which the options ask for. Without
// Leash, programs with peers are left out.
func targetsOf(targets []target, c client, opt options) []target {
	return slices.DeleteFunc(slices.Clone(targets), func(t target) bool {
		return !slices.Contains(c.modes, t.mode) || opt.mode != "" && opt.mode != t.mode || (c.peers || c.pair) && t.leash == nil
	})
}

// awaitIdle waits until no Leash keeps state of any program.
func (b *testbed) awaitIdle() error {
	for _, t := range b.targets {
		for _, l := range t.leashes() {
			if err := l.AwaitInfo(idleTimeout, idle...); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	return nil
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

// startLeash starts a Leash in front of the upstreams and returns when it answers. Token counters
// stay for ever, because Redisson's RFencedLock uses them too.
func (b *testbed) startLeash(ctx context.Context, binary string, upstreams ...string) (*leashtest.Leash, error) {
	l, err := leashtest.Start(ctx, binary, b.dir, "--upstream", strings.Join(upstreams, ","), "--token-ttl", "0")
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, l.Stop)
	return l, nil
}

// startLeashes starts one or two Leashes in front of the upstreams.
func (b *testbed) startLeashes(ctx context.Context, binary string, pair bool, upstreams ...string) (all []*leashtest.Leash, err error) {
	for len(all) == 0 || pair && len(all) < 2 {
		l, err := b.startLeash(ctx, binary, upstreams...)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}
