package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"leash/bench/load"
	"leash/bench/testbed"
	"leash/internal/redistest"
)

// An environment is a Redis, or a cluster, with everything that takes locks on it.
type environment struct {
	testbed.Bed
	name   string
	opt    lockOptions
	addrs  []string     // of all nodes
	routes []load.Route // of clients without Leash
	redis  []int        // process ids
	pairs  []*lockRow
	races  []*lockRow
}

// setUpEnvironment starts what the options ask for. If it fails, it ends what it has started.
func setUpEnvironment(ctx context.Context, opt lockOptions, name string) (_ *environment, err error) {
	g := &environment{name: name, opt: opt}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if err = g.MakeDir(); err != nil {
		return nil, err
	}
	if g.opt.leash, err = g.LeashBinary(ctx, opt.leash); err != nil {
		return nil, err
	}
	if err := g.startRedis(ctx); err != nil {
		return nil, err
	}
	leashes, err := g.startLeashPairs(ctx)
	if err != nil {
		return nil, err
	}
	script, err := g.record(leashes[0].addrs[0])
	if err != nil {
		return nil, err
	}
	peers, err := g.startPeers(ctx, leashes[0].addrs[0])
	if err != nil {
		return nil, err
	}
	for _, n := range opt.connections {
		g.addPairs(n, script, leashes, peers)
	}
	for _, l := range leashes {
		g.addRaces(l)
	}
	return g, nil
}

// startRedis starts a Redis or a cluster.
func (g *environment) startRedis(ctx context.Context) error {
	if g.name == onRedis {
		testbed.Progress("starting a redis")
		s, err := g.LaunchRedis()
		if err != nil {
			return err
		}
		g.addrs, g.routes, g.redis = []string{s.Addr}, []load.Route{{Addr: s.Addr}}, []int{s.Pid()}
		return nil
	}
	testbed.Progress("starting a cluster")
	c, err := redistest.LaunchCluster(redistest.ClusterOptions{})
	if err != nil {
		return err
	}
	g.Closers = append(g.Closers, c.Close)
	g.addrs = c.Addrs()
	for _, n := range c.Nodes {
		g.redis = append(g.redis, n.Pid())
	}
	g.routes, err = testbed.ClusterRoutes(ctx, c)
	return err
}

// leashPair is two Leashes with the same flags.
type leashPair struct {
	flags string
	addrs [2]string
	pids  [2]int
}

// suffix distinguishes the pair's rows from those of other pairs.
func (l leashPair) suffix() string {
	if l.flags == "" {
		return ""
	}
	return " " + l.flags
}

// startLeashPairs starts two Leashes for each set of their flags.
func (g *environment) startLeashPairs(ctx context.Context) (pairs []leashPair, err error) {
	for _, flags := range g.opt.leashFlags {
		l := leashPair{flags: strings.TrimSpace(flags)}
		for i := range l.addrs {
			c, err := g.StartChild(ctx, g.opt.leash, func(port int) ([]string, error) {
				args := []string{"--listen", "127.0.0.1:" + strconv.Itoa(port), "--upstream", strings.Join(g.addrs, ",")}
				return append(args, strings.Fields(flags)...), nil
			})
			if err != nil {
				return nil, err
			}
			l.addrs[i], l.pids[i] = c.Addr, c.PID()
		}
		pairs = append(pairs, l)
	}
	return pairs, nil
}

// record records what the Leash at addr sends, and loads the scripts on every node.
func (g *environment) record(addr string) (*load.Recording, error) {
	key := func(at load.Route) string { return load.KeysFor(-1, 1, at.Owns)[0] }
	for _, at := range g.routes[1:] {
		if _, err := load.AcquireOnce(addr, key(at)); err != nil {
			return nil, err
		}
	}
	return load.RecordPair(addr, g.routes[0].Addr, key(g.routes[0]))
}
