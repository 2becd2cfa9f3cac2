package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// relayVariable is the environment variable that makes this program a client's process. Its value
// is the address to connect to.
const relayVariable = "LEASH_NEMESIS_RELAY"

// relay copies bytes between file descriptor 3 and a connection to addr until one of them ends. To
// Leash it is an ordinary client. Its process can be killed and stopped.
func relay(addr string) error {
	file := os.NewFile(3, "nemesis")
	owner, err := net.FileConn(file)
	if err != nil {
		return err
	}
	_ = file.Close()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	done := make(chan error, 2)
	for _, pair := range [][2]net.Conn{{c, owner}, {owner, c}} {
		go func() {
			_, err := io.Copy(pair[0], pair[1])
			done <- err
		}()
	}
	return <-done // the process ends then, which closes both
}

// process is a client that runs in its own process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// startProcess starts a client process that connects to addr. It also returns the connection on
// which the client writes and reads.
func startProcess(addr string) (*process, net.Conn, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	mine, its := os.NewFile(uintptr(fds[0]), "mine"), os.NewFile(uintptr(fds[1]), "its")
	defer mine.Close()
	defer its.Close()
	conn, err := net.FileConn(mine)
	if err != nil {
		return nil, nil, err
	}
	program, err := os.Executable()
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	p := &process{cmd: exec.Command(program), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), relayVariable+"="+addr, "GOMAXPROCS=1")
	p.cmd.ExtraFiles = []*os.File{its}
	if err := p.cmd.Start(); err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("start a client: %w", err)
	}
	go func() { // ends with the process
		defer close(p.done)
		_ = p.cmd.Wait() // an error is normal: the process was killed
	}()
	return p, conn, nil
}

// kill ends the process with SIGKILL, even if it is stopped.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
}

// processes is the set of the running client processes. It is safe for concurrent use.
type processes struct {
	mu  sync.Mutex
	all map[*process]bool
}

func (ps *processes) add(p *process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.all == nil {
		ps.all = make(map[*process]bool)
	}
	ps.all[p] = true
}

func (ps *processes) remove(p *process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.all, p)
}

// signal sends a signal to about half of the processes, and returns these.
func (ps *processes) signal(sig syscall.Signal, rnd *rand.Rand) (hit []*process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for p := range ps.all {
		if rnd.IntN(2) == 0 {
			_ = p.cmd.Process.Signal(sig)
			hit = append(hit, p)
		}
	}
	return hit
}
