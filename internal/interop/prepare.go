package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// preparers is how many directories are prepared at a time. They partly wait for the network.
const preparers = 2

// killWait is how long a killed command may take to close its output.
const killWait = 5 * time.Second

// errNotReady says that a program could not run because its preparation failed.
var errNotReady = errors.New("not prepared")

// A preparation fetches and builds what is in one directory.
type preparation struct {
	done   chan struct{} // closed when the fields below are set
	output []byte
	err    error
}

// preparations are the preparations by directory.
type preparations struct {
	root string
	by   map[string]*preparation
	wg   sync.WaitGroup
}

// prepareAll begins to prepare the clients' directories, in order. It ends early when ctx does;
// wait waits for that.
func prepareAll(ctx context.Context, root string, clients []client) *preparations {
	p := &preparations{root: root, by: map[string]*preparation{}}
	queue := make(chan client, len(clients))
	for _, c := range clients {
		if p.by[c.dir] == nil {
			p.by[c.dir] = &preparation{done: make(chan struct{})}
			queue <- c
		}
	}
	close(queue)
	for range preparers {
		p.wg.Go(func() {
			for c := range queue {
				p.prepare(ctx, c)
			}
		})
	}
	return p
}

func (p *preparations) wait() { p.wg.Wait() }

func (p *preparations) prepare(ctx context.Context, c client) {
	it := p.by[c.dir]
	defer close(it.done)
	for _, line := range c.prepare {
		output, err := command(ctx, filepath.Join(p.root, c.dir), nil, strings.Fields(line))
		it.output = append(it.output, output...)
		if err != nil {
			it.err = fmt.Errorf("%w: %s: %w", errNotReady, line, err)
			return
		}
	}
}

// run waits until the client is prepared and runs its program against t. It returns what the
// program printed. It also returns an error if Leash keeps state of the program after it has ended.
func (p *preparations) run(ctx context.Context, c client, t target, opt options) ([]byte, error) {
	it := p.by[c.dir]
	select {
	case <-it.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if it.err != nil {
		return it.output, it.err
	}
	if err := t.empty(ctx); err != nil {
		return nil, err
	}
	args := append(strings.Fields(c.program), t.host, t.port, t.mode)
	switch {
	case c.peers:
		args = append(args, t.upstream)
	case c.pair:
		args = append(args, t.second.clientAddr)
	case opt.direct:
		args = append(args, "direct")
	}
	limited, cancel := context.WithTimeoutCause(ctx, opt.timeout, fmt.Errorf("killed after %v", opt.timeout))
	defer cancel()
	output, err := command(limited, filepath.Join(p.root, c.dir), t.env, args)
	switch {
	case err != nil && limited.Err() != nil:
		err = context.Cause(limited)
	case err == nil:
		for _, l := range t.leashes() {
			err = errors.Join(err, l.AwaitInfo(idleTimeout, noClients...))
		}
	}
	return output, err
}

// command runs a program in dir and returns what it prints. A nil env is that of this process. When
// ctx ends first, the program is killed with all that it started.
func command(ctx context.Context, dir string, env, argv []string) ([]byte, error) {
	if strings.ContainsRune(argv[0], filepath.Separator) {
		argv[0] = filepath.Join(dir, argv[0])
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killWait
	return cmd.CombinedOutput()
}
