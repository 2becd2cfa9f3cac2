package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"leash/bench/testbed"
)

// A peer is a library whose locks are measured.
type peer struct {
	name    string
	program *testbed.Program
	note    string // why there is no program
}

// errNotInstalled says that a tool is missing on this machine.
var errNotInstalled = errors.New("not installed")

// startPeers builds and starts the programs of the libraries that the options ask for. A library
// that cannot be built gets a note, or an error if the options name it. leash is the Leash that
// go-redis talks to.
func (g *environment) startPeers(ctx context.Context, leash string) (peers []*peer, err error) {
	where := g.addrs
	if g.name == onCluster {
		where = append([]string{"cluster"}, g.addrs...)
	}
	for _, name := range []string{byGoRedis, byRedsync, byRedislock, byRedisson} {
		if !g.opt.wants(name) {
			continue
		}
		p := &peer{name: name}
		var argv []string
		switch name {
		case byRedisson:
			argv, err = g.buildRedisson(ctx)
			argv = append(argv, where...)
		case byGoRedis:
			argv, err = g.buildPeers(ctx)
			argv = append(argv, "go-redis", leash)
		default:
			argv, err = g.buildPeers(ctx)
			argv = append(append(argv, name), where...)
		}
		if err == nil {
			testbed.Progress("starting " + name)
			if p.program, err = testbed.StartProgram(g.Dir, name, argv...); err == nil {
				g.Closers = append(g.Closers, p.program.Stop)
			}
		}
		if err != nil {
			if slices.Contains(g.opt.only, name) || ctx.Err() != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintf(os.Stderr, "bench: %s is left out: %v\n", name, err)
			p.note = "not built"
			if errors.Is(err, errNotInstalled) {
				p.note = errNotInstalled.Error()
			}
		}
		peers = append(peers, p)
	}
	return peers, nil
}

// buildPeers builds the module of the Go libraries, once.
func (g *environment) buildPeers(ctx context.Context) (argv []string, err error) {
	path := filepath.Join(g.Dir, "peers")
	if _, err := os.Stat(path); err == nil {
		return []string{path}, nil
	}
	return []string{path}, g.build(ctx, "peers", "go", "build", "-o", path, ".")
}

// buildRedisson compiles the program that uses Redisson, in its directory.
func (g *environment) buildRedisson(ctx context.Context) (argv []string, err error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotInstalled, err)
		}
	}
	dir, err := sourceDir(ctx)
	if err != nil {
		return nil, err
	}
	target := filepath.Join(dir, byRedisson, "target")
	classes := filepath.Join(target, "classes") + ":" + filepath.Join(target, "lib", "*")
	return []string{"java", "-cp", classes, "Bench"},
		g.build(ctx, byRedisson, "mvn", "-q", "-B", "compile", "dependency:copy-dependencies", "-DoutputDirectory=target/lib")
}

// build runs argv in a directory below bench.
func (g *environment) build(ctx context.Context, name string, argv ...string) error {
	dir, err := sourceDir(ctx)
	if err != nil {
		return err
	}
	testbed.Progress("building " + name)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(dir, name)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return nil
}

// sourceDir is where this package is.
func sourceDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "leash/bench").Output()
	return strings.TrimSpace(string(out)), err
}
