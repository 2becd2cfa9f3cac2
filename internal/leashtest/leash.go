// Package leashtest runs Leash as processes on this machine, for programs that test it from
// outside.
package leashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"leash/internal/redistest"
)

const (
	startTries   = 3
	readyTimeout = time.Minute
	stopTimeout  = 30 * time.Second
	pollInterval = 10 * time.Millisecond
)

// Leash is one Leash, running or not. Its methods are safe for concurrent use, but Kill, Stop,
// Pause, Resume, Hangup and Restart wait for one another.
type Leash struct {
	Addr string // restarts keep it
	Log  string // the file that has its output, of all its runs

	binary string
	args   []string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Start runs the binary with these arguments at a free port of 127.0.0.1 and returns when it
// answers. Its log is a file in dir. A program that does not use redistest may take the port before
// Leash does. Start then tries another port.
func Start(ctx context.Context, binary, dir string, args ...string) (*Leash, error) {
	var errs []error
	for range startTries {
		addr, err := redistest.ReserveAddr()
		if err != nil {
			return nil, err
		}
		l := &Leash{Addr: addr, Log: filepath.Join(dir, addr+".log"), binary: binary, args: args}
		if err := l.Restart(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		return l, nil
	}
	return nil, errors.Join(errs...)
}

// Restart starts Leash and returns when it answers. If it still runs, Restart kills it first.
func (l *Leash) Restart(ctx context.Context) error { return l.RestartWith(ctx, l.binary) }

// RestartWith is Restart with another binary. Only this start uses it.
func (l *Leash) RestartWith(ctx context.Context, binary string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill()
	log, err := os.OpenFile(l.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(binary, append([]string{"--listen", l.Addr}, l.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	l.cmd, l.done = cmd, done
	go func() { // ends with the process
		defer close(done)
		_ = cmd.Wait()
	}()
	if err := l.awaitReady(ctx); err != nil {
		l.kill()
		return err
	}
	return nil
}

func (l *Leash) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := l.ping()
		if err == nil {
			return nil
		}
		select {
		case <-l.done:
			return fmt.Errorf("leash ended at once: %s", l.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("leash is not ready: %w; its log: %s", err, l.LogTail())
		case <-ticker.C:
		}
	}
}

// dial connects as a client of this Leash does, or with --proxy-protocol as a balancer that checks
// it.
func (l *Leash) dial() (*redistest.Client, error) {
	c, err := redistest.Dial(l.Addr)
	if err != nil || !slices.Contains(l.args, "--proxy-protocol") {
		return c, err
	}
	if err := c.Send("PROXY UNKNOWN\r\n"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// ping reports whether Leash serves clients. One that wants a password does.
func (l *Leash) ping() error {
	c, err := l.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	c.Timeout = readyTimeout
	reply, err := c.Do("PING")
	if err == nil && reply != "+PONG\r\n" && !strings.HasPrefix(reply, "-NOAUTH ") {
		err = fmt.Errorf("PING was answered %q", reply)
	}
	return err
}

// kill is Kill. l.mu is held.
func (l *Leash) kill() {
	if l.cmd == nil {
		return
	}
	_ = l.cmd.Process.Kill() // it may have ended
	<-l.done
	l.cmd = nil
}

// Kill ends Leash with SIGKILL, as a crash does, and returns when it is gone.
func (l *Leash) Kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill()
}

// Stop ends Leash with SIGTERM, as an operator does. It returns an error if the end was not
// orderly.
func (l *Leash) Stop() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cmd == nil {
		return nil
	}
	_ = l.cmd.Process.Signal(syscall.SIGTERM) // it may have ended: reported below
	select {
	case <-l.done:
	case <-time.After(stopTimeout):
		_ = l.cmd.Process.Kill()
		<-l.done
	}
	state := l.cmd.ProcessState
	l.cmd = nil
	if !state.Success() {
		return fmt.Errorf("leash at %s ended with %v; its log: %s", l.Addr, state, l.LogTail())
	}
	return nil
}

// Pause stops Leash with SIGSTOP and returns when it has stopped. Leash does nothing until Resume.
// The kernel still accepts connections and bytes for it.
func (l *Leash) Pause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.signalLocked(syscall.SIGSTOP); err != nil {
		return err
	}
	return redistest.AwaitStopped(l.cmd.Process.Pid)
}

// Resume continues a paused Leash.
func (l *Leash) Resume() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.signalLocked(syscall.SIGCONT)
}

// Hangup sends SIGHUP, after which Leash reads its files again.
func (l *Leash) Hangup() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.signalLocked(syscall.SIGHUP)
}

func (l *Leash) signalLocked(sig syscall.Signal) error {
	if l.cmd == nil {
		return errors.New("leash does not run")
	}
	return l.cmd.Process.Signal(sig)
}

// Crashed reports whether the process has ended without Kill or Stop.
func (l *Leash) Crashed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cmd == nil {
		return false
	}
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// AwaitInfo waits until INFO leash has all these lines ("holds:0") after the prefix "leash_". After
// timeout it returns an error that lists the missing lines.
func (l *Leash) AwaitInfo(timeout time.Duration, lines ...string) error {
	for deadline := time.Now().Add(timeout); ; time.Sleep(pollInterval) {
		missing, err := l.missing(lines)
		if err == nil && len(missing) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(err, fmt.Errorf("INFO leash at %s has not: %s", l.Addr, strings.Join(missing, " ")))
		}
	}
}

func (l *Leash) missing(lines []string) (missing []string, err error) {
	c, err := l.dial()
	if err != nil {
		return lines, err
	}
	defer c.Close()
	info, err := c.Do("INFO", "leash")
	for _, line := range lines {
		if !strings.Contains(info, "\r\nleash_"+line+"\r\n") {
			missing = append(missing, line)
		}
	}
	return missing, err
}

// Said is the first line of the log, of all runs, that has one of these words; "" when none
// has.
func (l *Leash) Said(words ...string) (line string, err error) {
	b, err := os.ReadFile(l.Log)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) }) {
			return strings.TrimSpace(line), nil
		}
	}
	return "", nil
}

// LogTail is the end of the output, for errors.
func (l *Leash) LogTail() string {
	b, err := os.ReadFile(l.Log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-2000):]))
}
