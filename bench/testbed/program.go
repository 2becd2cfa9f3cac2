package testbed

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

	"leash/bench/load"
)

// A Program takes locks with a library, in a process of its own. bench/peers describes its input.
type Program struct {
	*Child
	In    io.WriteCloser // requests
	lines chan string    // its output; closed when it ends
}

// programSlack is how long after its end a round may be reported.
const programSlack = 30 * time.Second

// StartProgram starts argv. name is that of its log.
func StartProgram(dir, name string, argv ...string) (*Program, error) {
	p := &Program{
		Child: &Child{
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
	if p.In, err = p.cmd.StdinPipe(); err != nil {
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

// Run makes the program take and release locks over connections. It calls mark as load.run does.
func (p *Program) Run(ctx context.Context, connections int, warmup, round time.Duration,
	mark func() error) (*load.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, warmup+round+programSlack)
	defer cancel()
	if _, err := fmt.Fprintln(p.In, "run", connections, warmup.Milliseconds(), round.Milliseconds()); err != nil {
		return nil, fmt.Errorf("%w; its output ends:\n%s", err, p.LogTail())
	}
	for _, word := range []string{"begin", "over"} {
		line, err := p.Next(ctx)
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
	line, err := p.Next(ctx)
	if err != nil {
		return nil, err
	}
	s := &load.Sample{}
	if _, err := fmt.Sscanf(line, "end %d %d %d %d", &s.Commands, &s.Elapsed, &s.P50, &s.P99); err != nil {
		return nil, fmt.Errorf("it said %q: %w", line, err)
	}
	return s, nil
}

// Next is the next line of the program's output.
func (p *Program) Next(ctx context.Context) (string, error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", fmt.Errorf("it ended; its output ends:\n%s", p.LogTail())
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Stop closes the program's input, so that the program ends. If it does not, stop kills it.
func (p *Program) Stop() error {
	_ = p.In.Close()
	return p.Child.stop()
}
