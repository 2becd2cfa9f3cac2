package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"leash/internal/redistest"
)

const (
	startTries   = 3
	readyTimeout = 15 * time.Second
	stopTimeout  = 15 * time.Second
	idleTimeout  = 15 * time.Second
	pollInterval = 10 * time.Millisecond
)

// A leash is a running Leash.
type leash struct {
	addr string
	log  string // the file that has its output
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// startLeash runs the binary before the upstream and returns when it answers. Between our choice of a free port and
// its use, another program may take the port: it tries again with another.
func startLeash(ctx context.Context, binary, dir, upstream string) (*leash, error) {
	var errs []error
	for range startTries {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		l := &leash{addr: addr, log: filepath.Join(dir, addr+".log"), done: make(chan struct{})}
		// The counters of tokens stay for ever, since Redisson's RFencedLock uses them too.
		l.cmd = exec.Command(binary, "--listen", addr, "--upstream", upstream, "--token-ttl", "0")
		if err := l.start(); err != nil {
			return nil, err
		}
		err = l.awaitReady(ctx)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err, l.stop())
	}
	return nil, errors.Join(errs...)
}

func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

func (l *leash) start() error {
	log, err := os.Create(l.log)
	if err != nil {
		return err
	}
	defer log.Close()
	l.cmd.Stdout, l.cmd.Stderr = log, log
	if err := l.cmd.Start(); err != nil {
		return err
	}
	go l.reap()
	return nil
}

func (l *leash) reap() {
	defer close(l.done)
	_ = l.cmd.Wait() // stop looks at how it ended
}

func (l *leash) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := ping(l.addr)
		if err == nil {
			return nil
		}
		select {
		case <-l.done:
			return fmt.Errorf("leash ended at once: %s", l.logTail())
		case <-ctx.Done():
			return fmt.Errorf("leash is not ready: %w; its log: %s", err, l.logTail())
		case <-ticker.C:
		}
	}
}

func ping(addr string) error {
	c, err := redistest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	reply, err := c.Do("PING")
	if err == nil && reply != "+PONG\r\n" {
		err = fmt.Errorf("PING was answered %q", reply)
	}
	return err
}

// quiet is what Leash says of itself when it has no client but the one that asks.
var quiet = []string{
	"sessions:1", "pinned_connections:0", "holds:0", "waiters:0", "subscribers:0", "protocol_errors:0", "panics:0",
}

// idle is what it says some seconds later, for it listens to a lock's channel a little longer than anybody waits. The
// subscription that remains is its own.
var idle = append([]string{"upstream_subscriptions:1"}, quiet...)

// awaitLines waits until Leash says all that of itself: that it has noticed that its clients are gone. It is an error
// when it keeps anything of theirs.
func (l *leash) awaitLines(ctx context.Context, lines []string) error {
	ctx, cancel := context.WithTimeout(ctx, idleTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		missing, err := l.missing(lines)
		if err != nil || len(missing) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("clients are gone, and INFO leash has not: %s", strings.Join(missing, " "))
		case <-ticker.C:
		}
	}
}

// missing returns those of the lines that INFO leash has not.
func (l *leash) missing(lines []string) ([]string, error) {
	c, err := redistest.Dial(l.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	info, err := c.Do("INFO", "leash")
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return strings.Contains(info, "\r\nleash_"+line+"\r\n")
	}), err
}

// stop ends the process. It is an error when that was not orderly.
func (l *leash) stop() error {
	_ = l.cmd.Process.Signal(syscall.SIGTERM) // it may have ended: told below
	select {
	case <-l.done:
	case <-time.After(stopTimeout):
		_ = l.cmd.Process.Kill()
		<-l.done
	}
	if state := l.cmd.ProcessState; !state.Success() {
		return fmt.Errorf("leash at %s ended with %v; its log: %s", l.addr, state, l.logTail())
	}
	return nil
}

// logTail is the end of the output, for errors.
func (l *leash) logTail() string {
	b, err := os.ReadFile(l.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-2000):]))
}
