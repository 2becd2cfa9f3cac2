package main

import (
	"cmp"
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
	upstream   string              // the value of Leash's --upstream
	env        []string            // of the program; nil is that of this process
	leash      *leash              // nil without Leash
	second     *leash              // beside leash; nil when no program needs it
}

// A leash is a Leash that runs.
type leash struct {
	*leashtest.Leash
	clientAddr string // for the programs: with --tls the port that speaks TLS, else Addr
}

// leashes are the Leashes of a target.
func (t target) leashes() (all []*leash) {
	for _, l := range []*leash{t.leash, t.second} {
		if l != nil {
			all = append(all, l)
		}
	}
	return all
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
	dir     string    // temporary: Leash and its logs
	tls     *security // nil without --tls
	targets []target
	closers []func() error // in the order in which things were started
}

// setUp starts a Redis, a cluster of three masters with a replica each, and with --tls a master
// with sentinels. It starts a Leash in front of each, unless the programs are to talk to Redis
// itself. Then there are no sentinels. If it fails, it ends what it has started.
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

	if opt.tls {
		if b.tls, err = newSecurity(ctx, b.dir); err != nil {
			return nil, err
		}
	}
	s, err := redistest.Launch(redistest.Options{TLS: b.tls.redisTLS(), Args: b.tls.redisArgs()})
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, s.Close)
	c, err := redistest.LaunchCluster(redistest.ClusterOptions{Replicas: 1, TLS: b.tls.redisTLS(), Args: b.tls.redisArgs()})
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
	redis, nodes := b.tls.addresses(s.Addr), b.tls.addresses(c.Addrs()...)

	if opt.direct {
		b.add("nothing", standalone, redis, nil, s)
		b.add("nothing", cluster, nodes, nil, masters...)
		return b, nil
	}
	binary, err := leashtest.Build(ctx, b.dir, false)
	if err != nil {
		return nil, err
	}
	pair := slices.ContainsFunc(clients, func(c client) bool { return c.pair && opt.wants(c) })
	beforeRedis, err := b.startLeashes(ctx, binary, pair, redis)
	if err != nil {
		return nil, err
	}
	beforeCluster, err := b.startLeashes(ctx, binary, pair, nodes)
	if err != nil {
		return nil, err
	}
	b.add("leash before a redis", standalone, redis, beforeRedis, s)
	b.add("leash before a cluster", standalone, nodes, beforeCluster, masters...)
	b.add("leash before a cluster", cluster, nodes, beforeCluster, masters...)
	if b.tls != nil {
		err = b.addSentinels(ctx, binary, pair)
	}
	return b, err
}

// addSentinels starts a master with a replica, three sentinels, and Leashes that know only these.
// The master does not change before the program for that.
func (b *testbed) addSentinels(ctx context.Context, binary string, pair bool) error {
	g, err := redistest.LaunchSentinel(redistest.SentinelOptions{Replicas: 1, DownAfter: redistest.NoFailover,
		TLS: b.tls.redisTLS(), Args: b.tls.redisArgs()})
	if err != nil {
		return err
	}
	b.closers = append(b.closers, g.Close)
	if err := addUser(ctx, g.Servers); err != nil {
		return err
	}
	sentinels := b.tls.addresses(g.Addrs()...)
	leashes, err := b.startLeashes(ctx, binary, pair, sentinels, b.tls.sentinelFlags(g.Name)...)
	if err != nil {
		return err
	}
	master := g.Servers[0]
	b.add("leash and sentinels", standalone, b.tls.addresses(master.Addr), leashes, master)
	b.add("leash and sentinels", failover, sentinels, leashes, master)
	return nil
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

// add adds a target. Without Leash, the programs use the first address of the upstream.
func (b *testbed) add(name, mode, upstream string, leashes []*leash, masters ...*redistest.Server) {
	t := target{name: name, mode: mode, upstream: upstream, masters: masters, env: b.tls.environ()}
	addr, _, _ := strings.Cut(upstream, ",")
	if len(leashes) > 0 {
		t.leash = leashes[0]
		addr = t.leash.clientAddr
	}
	if len(leashes) > 1 {
		t.second = leashes[1]
	}
	t.host, t.port, _ = net.SplitHostPort(addr)
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

// startLeash starts a Leash in front of the upstream and returns when it answers. Token counters
// stay for ever, because Redisson's RFencedLock uses them too.
func (b *testbed) startLeash(ctx context.Context, binary, upstream string, flags ...string) (*leash, error) {
	args := append([]string{"--upstream", upstream, "--token-ttl", "0"}, flags...)
	addr := ""
	if b.tls != nil {
		var err error
		if addr, err = redistest.ReserveAddr(); err != nil {
			return nil, err
		}
		args = append(append(args, "--tls-listen", addr), b.tls.leash...)
	}
	l, err := leashtest.Start(ctx, binary, b.dir, args...)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, l.Stop)
	return &leash{Leash: l, clientAddr: cmp.Or(addr, l.Addr)}, nil
}

// startLeashes starts one or two Leashes in front of the upstream.
func (b *testbed) startLeashes(ctx context.Context, binary string, pair bool, upstream string, flags ...string) (all []*leash, err error) {
	for len(all) == 0 || pair && len(all) < 2 {
		l, err := b.startLeash(ctx, binary, upstream, flags...)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}
