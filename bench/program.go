package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A program takes locks with a library, in a process of its own. bench/peers describes its input.
type program struct {
	*child
	in    io.WriteCloser // requests
	lines chan string    // its output; closed when it ends
}

// programSlack is how long after its end a round may be reported.
const programSlack = 30 * time.Second

// startProgram starts argv. name is that of its log.
func startProgram(dir, name string, argv ...string) (*program, error) {
	p := &program{
		child: &child{
			log: filepath.Join(dir, name+".log"), cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}),
		},
		lines: make(chan string, 16),
	}
	out, theirs, err := os.Pipe() // not the command's own pipe, which could lose the last lines
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p.cmd.Stdout = theirs
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	if err := p.start(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go func() {
		defer close(p.lines)
		defer out.Close()
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p, nil
}

// run makes the program take and release locks over connections. It calls mark as load.run does.
func (p *program) run(ctx context.Context, connections int, opt options, mark func() error) (*sample, error) {
	ctx, cancel := context.WithTimeout(ctx, opt.warmup+opt.round+programSlack)
	defer cancel()
	if _, err := fmt.Fprintln(p.in, "run", connections, opt.warmup.Milliseconds(), opt.round.Milliseconds()); err != nil {
		return nil, fmt.Errorf("%w; its output ends:\n%s", err, p.logTail())
	}
	for _, word := range []string{"begin", "over"} {
		line, err := p.next(ctx)
		if err == nil && line != word {
			err = fmt.Errorf("it said %q, want %q", line, word)
		}
		if err == nil {
			err = mark()
		}
		if err != nil {
			return nil, err
		}
	}
	line, err := p.next(ctx)
	if err != nil {
		return nil, err
	}
	s := &sample{}
	if _, err := fmt.Sscanf(line, "end %d %d %d %d", &s.commands, &s.elapsed, &s.p50, &s.p99); err != nil {
		return nil, fmt.Errorf("it said %q: %w", line, err)
	}
	return s, nil
}

// next is the next line of the program's output.
func (p *program) next(ctx context.Context) (string, error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", fmt.Errorf("it ended; its output ends:\n%s", p.logTail())
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// stop closes the program's input, so that the program ends. If it does not, stop kills it.
func (p *program) stop() error {
	_ = p.in.Close()
	return p.child.stop()
}
