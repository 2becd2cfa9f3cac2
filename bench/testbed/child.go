package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	readyTimeout = 15 * time.Second
	stopTimeout  = 5 * time.Second
	pollInterval = 10 * time.Millisecond
	startTries   = 3
)

// A Child is a proxy that bench has started.
type Child struct {
	Addr string
	log  string // the file that has its output
	cmd  *exec.Cmd
	done chan struct{} // closed by own when the process has ended
}

// startChild runs a program and returns when it answers a GET. args gets the port that the program
// listens on. Another program may take that port between the choice of a free port and its use.
// startChild then tries another port.
func startChild(ctx context.Context, dir, name string, args func(port int) ([]string, error)) (*Child, error) {
	var errs []error
	for try := range startTries {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		argv, err := args(port)
		if err != nil {
			return nil, err
		}
		c := &Child{
			Addr: fmt.Sprintf("127.0.0.1:%d", port),
			log:  filepath.Join(dir, fmt.Sprintf("%s-%d.log", filepath.Base(name), port)),
			cmd:  exec.Command(name, argv...),
			done: make(chan struct{}),
		}
		if err := c.start(); err != nil {
			return nil, err
		}
		err = c.awaitReady(ctx)
		if err == nil {
			return c, nil
		}
		errs = append(errs, fmt.Errorf("%s, try %d: %w; its output ends:\n%s", filepath.Base(name), try+1, err, c.LogTail()), c.stop())
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// FreePort is a port of 127.0.0.1 on which nothing listens.
func FreePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

func (c *Child) start() error {
	log, err := os.Create(c.log)
	if err != nil {
		return err
	}
	defer log.Close()
	if c.cmd.Stdout == nil {
		c.cmd.Stdout = log
	}
	c.cmd.Stderr, c.cmd.SysProcAttr = log, childAttr()
	started := make(chan error, 1)
	go c.own(started)
	return <-started
}

// own starts the process and waits for its end. It stays on its thread until then, because the
// kernel kills the process when the thread that started it ends.
func (c *Child) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)
	err := c.cmd.Start()
	started <- err
	if err == nil {
		_ = c.cmd.Wait() // the caller does not need the exit status
	}
}

// PID is the number of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// awaitReady polls until a GET is answered.
func (c *Child) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := probe(c.Addr)
		if err == nil {
			return nil
		}
		select {
		case <-c.done:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-ticker.C:
		}
	}
}

// probe returns nil when a GET of a missing key is answered as Redis does.
func probe(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("*2\r\n$3\r\nGET\r\n$12\r\nbench:absent\r\n")); err != nil {
		return err
	}
	reply := make([]byte, 256)
	n, err := conn.Read(reply)
	if err != nil {
		return err
	}
	if !bytes.Equal(reply[:n], []byte("$-1\r\n")) {
		return fmt.Errorf("GET of a missing key was answered %q", reply[:n])
	}
	return nil
}

// stop ends the process and waits for it. If the process does not end soon after SIGTERM, stop
// kills it.
func (c *Child) stop() error {
	if err := c.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(stopTimeout):
	}
	err := c.signal(syscall.SIGKILL)
	<-c.done
	return err
}

func (c *Child) signal(sig syscall.Signal) error {
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// LogTail is the end of the output, for errors.
func (c *Child) LogTail() string {
	b, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-2000):]))
}
