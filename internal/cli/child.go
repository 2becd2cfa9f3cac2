package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"leash/internal/guard"
)

// child is the program that runs under a lock. It has a process group of its own, so that all that
// it starts ends with it.
type child struct {
	cmd  *exec.Cmd
	tty  *terminal
	done chan struct{} // closed when it has ended
	err  error         // of its end, once done is closed
}

// startChild starts a program with the standard streams of this process. Where the system can do
// that, the program is killed if this process dies.
func startChild(argv, env []string, stdout, stderr io.Writer) (*child, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	c := &child{cmd: cmd, tty: ownTerminal(), done: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.tty.giveTo(cmd.SysProcAttr)
	dieWithParent(cmd.SysProcAttr)
	started := make(chan error, 1)
	go func() {
		defer close(c.done)
		c.err = guard.Call(nil, "run a program", func() error {
			// The system counts the end of the thread that started the program as the parent's end.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := cmd.Start()
			started <- err
			if err != nil {
				return err
			}
			defer c.tty.takeBack()
			return cmd.Wait()
		})
	}()
	if err := <-started; err != nil {
		<-c.done
		return nil, startError(argv[0], err)
	}
	return c, nil
}

// startError gives the exit status that a shell has for a program that does not start.
func startError(name string, err error) error {
	status := exitNotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		status = exitNotFound
	}
	return &exitError{status, fmt.Errorf("%s: %w", name, err)}
}

// signal sends a signal to the whole process group.
func (c *child) signal(sig os.Signal) {
	if s, ok := sig.(syscall.Signal); ok {
		syscall.Kill(-c.cmd.Process.Pid, s)
	}
}

// result is the exit status of the program as a shell has it, as an error unless it is 0. The
// program must have ended.
func (c *child) result() error {
	var exit *exec.ExitError
	switch {
	case c.err == nil:
		return nil
	case !errors.As(c.err, &exit):
		return &exitError{exitFailed, c.err}
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &exitError{exitSignal + int(status.Signal()), nil}
	}
	return &exitError{exit.ExitCode(), nil}
}

// endBy ends the process group: SIGTERM now, and SIGKILL when killAt is over. It returns when the
// program has ended; nothing of the group runs then.
func (c *child) endBy(killAt func() time.Time) {
	c.signal(syscall.SIGTERM)
	c.signal(syscall.SIGCONT) // a stopped process sees SIGTERM only then
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for time.Now().Before(killAt()) {
		select {
		case <-c.done:
			c.signal(syscall.SIGKILL) // what is left of the group
			return
		case <-tick.C:
		}
	}
	c.signal(syscall.SIGKILL)
	<-c.done
}
