package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"leash/bench/load"
	"leash/internal/redistest"
)

// addPairs makes the rows of pairs over n connections.
func (g *environment) addPairs(n int, script *load.Recording, leashes []leashPair, peers []*peer) {
	scripts := func(i int, at load.Route) load.Exchanger { return script.Pair(load.KeysFor(i, 1, at.Owns)[0]) }
	locks := func(i int, at load.Route) load.Exchanger { return load.LockPair(load.KeysFor(i, 1, at.Owns)[0]) }
	add := func(kind, name string, t target, talk func(int, load.Route) load.Exchanger) {
		l := load.Load{Routes: t.routes, Clients: n, Pipeline: 1, Warmup: g.opt.warmup, Round: g.opt.round, Talk: talk}
		g.add(kind, name, n, func(ctx context.Context) (measurement, error) {
			return t.measured(l.Round, func(mark func() error) (*load.Sample, error) { return l.Run(ctx, mark) })
		})
	}
	add(byScripts, byScripts, target{routes: g.routes, redis: g.redis}, scripts)
	for _, l := range leashes {
		t := target{routes: []load.Route{{Addr: l.addrs[0]}}, proxies: l.pids[:1], redis: g.redis}
		add(byLeash, byLeash+l.suffix(), t, locks)
	}
	for _, p := range peers {
		t := target{redis: g.redis}
		if p.name == byGoRedis {
			t.proxies = leashes[0].pids[:1]
		}
		if p.note == "" {
			t.load = p.program.PID()
		}
		r := g.add(p.name, p.name, n, func(ctx context.Context) (measurement, error) {
			return t.measured(g.opt.round, func(mark func() error) (*load.Sample, error) {
				return p.program.Run(ctx, n, g.opt.warmup, g.opt.round, mark)
			})
		})
		r.library, r.note = true, p.note
	}
}

// add makes a row of pairs, if the options ask for its kind.
func (g *environment) add(kind, name string, n int, measure func(context.Context) (measurement, error)) *lockRow {
	r := &lockRow{result: result{target: name, clients: n}, measure: measure}
	if g.opt.wants(kind) {
		g.pairs = append(g.pairs, r)
	}
	return r
}

// addRaces makes the rows of hand-overs, on one Leash of the pair and across both.
func (g *environment) addRaces(l leashPair) {
	add := func(kind string, r load.Race, leashes int) {
		if !g.opt.wants(kind) {
			return
		}
		r.Key, r.Addrs, r.Warmup, r.Round = handOverLock, l.addrs[:leashes], g.opt.warmup, g.opt.round
		t := target{proxies: l.pids[:leashes], redis: g.redis}
		g.races = append(g.races, &lockRow{
			result:  result{target: kind + l.suffix(), clients: r.Count},
			measure: func(ctx context.Context) (measurement, error) { return g.measureRace(ctx, r, t) },
		})
	}
	add(handOver, load.Race{Count: g.opt.contenders}, 1)
	add(handOverFar, load.Race{Count: 2, Hold: farHold}, 2)
}

// measureRace also counts the calls to Redis.
func (g *environment) measureRace(ctx context.Context, r load.Race, t target) (measurement, error) {
	var marks []map[string]int
	note := func() error {
		calls, err := g.calls()
		marks = append(marks, calls)
		return err
	}
	m, err := t.measured(r.Round, func(mark func() error) (*load.Sample, error) {
		return r.Run(ctx, func() error {
			if len(marks) == 0 {
				return errors.Join(note(), mark())
			}
			return errors.Join(mark(), note())
		})
	})
	if err != nil {
		return m, err
	}
	m.calls = make(map[string]float64)
	for name, n := range marks[1] {
		m.calls[name] = float64(n-marks[0][name]) / float64(m.commands)
	}
	return m, nil
}

// calls is how often the nodes were called for each command, also by scripts.
func (g *environment) calls() (map[string]int, error) {
	sum := make(map[string]int)
	for _, addr := range g.addrs {
		c, err := redistest.Dial(addr)
		if err != nil {
			return nil, err
		}
		text, err := c.Do("INFO", "commandstats")
		if err := errors.Join(err, c.Close()); err != nil {
			return nil, err
		}
		addCalls(sum, text)
	}
	return sum, nil
}

// addCalls reads the section commandstats of INFO.
func addCalls(sum map[string]int, info string) {
	for line := range strings.Lines(info) {
		var n int
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if ok && strings.HasPrefix(line, "cmdstat_") {
			if _, err := fmt.Sscanf(rest, "calls=%d,", &n); err == nil {
				sum[name] += n
			}
		}
	}
}
