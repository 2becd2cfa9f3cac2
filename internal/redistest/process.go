package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

// ErrNotRunning is the error for a signal to a server that is not running.
var ErrNotRunning = errors.New("redistest: server is not running")

// process is one run of redis-server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed by own when the process has ended

	// mu makes pause and resume wait for each other.
	mu     sync.Mutex
	paused bool
}

// startProcess starts redis-server with args in dir, with env added to the environment of this
// process. Its output is appended to dir/redis.log.
func startProcess(dir string, args, env []string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{cmd: exec.Command("redis-server", args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = ownedAttr()
	started := make(chan error, 1)
	go p.own(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("redistest: start redis-server: %w", err)
	}
	return p, nil
}

// own starts the process, waits for its end and reaps it. It stays on its thread until then,
// because the kernel kills the process when the thread that started it ends.
func (p *process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // usually killed
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends sig. It never reaches another process with the same id, because os.Process knows
// when its process has been reaped.
func (p *process) signal(sig syscall.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return ErrNotRunning
	}
	return err
}

// pause returns when the process has stopped.
func (p *process) pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	p.paused = true
	return AwaitStopped(p.pid())
}

func (p *process) resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = false
	return p.signal(syscall.SIGCONT)
}

// kill ends the process as a crash would, paused or not, and returns when it is gone.
func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL)
	<-p.done
	return err
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// responsive reports whether the process runs and is not paused.
func (p *process) responsive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.paused && !p.exited()
}
