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

// A target is something that a program can be run against.
type target struct {
	name       string
	mode       string // of the program
	host, port string
	masters    []*redistest.Server // what lies behind
	leash      *leashtest.Leash    // nil when there is none in between
	second     *leashtest.Leash    // beside leash; nil when no program needs it
}

// leashes are those that stand in between.
func (t target) leashes() (all []*leashtest.Leash) {
	for _, l := range []*leashtest.Leash{t.leash, t.second} {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
}

// upstream has the addresses of what lies behind, as Leash is given them.
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

// A testbed is everything that was started for the programs.
type testbed struct {
	dir     string // temporary: Leash and its logs
	targets []target
	closers []func() error // in the order in which things were started
}

// setUp starts a Redis, a cluster of three masters with a replica each, and a Leash before each
// unless the programs are to speak to Redis itself. When it fails, it has ended what it had
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

// targetsOf are those of some targets that the client has a mode for and the options ask for.
// Without Leash there is nobody whom peers could meet.
func targetsOf(targets []target, c client, opt options) []target {
	return slices.DeleteFunc(slices.Clone(targets), func(t target) bool {
		return !slices.Contains(c.modes, t.mode) || opt.mode != "" && opt.mode != t.mode || (c.peers || c.pair) && t.leash == nil
	})
}

// awaitIdle waits until no Leash keeps anything of any program.
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

// close ends everything, last things first.
func (b *testbed) close() error {
	var errs []error
	for _, f := range slices.Backward(b.closers) {
		errs = append(errs, f())
	}
	b.closers = nil
	return errors.Join(errs...)
}

// startLeash starts a Leash before the upstreams and returns when it answers. The counters of
// tokens stay for ever, since Redisson's RFencedLock uses them too.
func (b *testbed) startLeash(ctx context.Context, binary string, upstreams ...string) (*leashtest.Leash, error) {
	l, err := leashtest.Start(ctx, binary, b.dir, "--upstream", strings.Join(upstreams, ","), "--token-ttl", "0")
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, l.Stop)
	return l, nil
}

// startLeashes starts one Leash before the upstreams, or two.
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
