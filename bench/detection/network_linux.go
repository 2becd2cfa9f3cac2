package detection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Enter runs this program again in a new network namespace, with these arguments and with out for
// its output. It returns when the program and all its children have ended.
func Enter(ctx context.Context, out io.Writer, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	ended := make(chan error)
	go func() { // the namespace exists as long as its thread
		runtime.LockOSThread()
		ended <- cmd.Run()
	}()
	err = <-ended
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("%w: %w", ErrNoNamespaces, err)
	}
	return err
}

// space is a network namespace.
type space struct{ file *os.File }

// here is the space of this process.
func here() (*space, error) {
	file, err := os.Open("/proc/thread-self/ns/net")
	return &space{file}, err
}

func newSpace() (s *space, err error) {
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		s, err = here()
		return err
	})
	return s, err
}

// onThread runs f on a thread that ends with f. f may move the thread to another namespace.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends
		done <- f()
	}()
	return <-done
}

// in runs f in the space, without the goroutines that f starts.
func (s *space) in(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(s.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

// ip runs commands of iproute2 in the space. The word THERE stands for the other space.
func (s *space) ip(there *space, commands ...[]string) error {
	return s.in(func() error {
		for _, args := range commands {
			cmd := exec.Command("ip", args...)
			for i, arg := range args {
				if arg == "THERE" {
					cmd.Args[i+1], cmd.ExtraFiles = "/proc/self/fd/3", []*os.File{there.file}
				}
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("ip %q (of iproute2): %w: %s", args, err, out)
			}
		}
		return nil
	})
}

// lan is a network of the namespace, a switch and a host.
type lan struct {
	network, net, host *space
	n                  int
}

// newLAN makes the nth network of the namespace.
func newLAN(network *space, n int) (*lan, error) {
	l := &lan{network: network, n: n}
	var err error
	for _, s := range []**space{&l.net, &l.host} {
		if *s, err = newSpace(); err != nil {
			return nil, err
		}
	}
	if err := l.net.ip(nil, []string{"link", "add", "switch", "type", "bridge"}, []string{"link", "set", "switch", "up"}); err != nil {
		return nil, err
	}
	for i, end := range []*space{l.network, l.host} {
		name, port := fmt.Sprint("lan", n), fmt.Sprint("port", i)
		if err := end.ip(l.net,
			[]string{"link", "add", name, "type", "veth", "peer", "name", port, "netns", "THERE"},
			[]string{"address", "add", l.addr(i) + "/24", "dev", name}, []string{"link", "set", name, "up"},
		); err != nil {
			return nil, err
		}
		if err := l.net.ip(nil, []string{"link", "set", port, "master", "switch"}, []string{"link", "set", port, "up"}); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// addr is the address of the namespace's end (0) or of the host's (1).
func (l *lan) addr(end int) string { return fmt.Sprintf("10.77.%d.%d", l.n, 1+end) }

// dial connects from the host to a port of the namespace.
func (l *lan) dial(port string) (conn net.Conn, err error) {
	err = l.host.in(func() error {
		conn, err = dialHere(net.JoinHostPort(l.addr(0), port))
		return err
	})
	return conn, err
}

// dialHere connects from the space of the calling thread. net.Dial would use threads of its own
// choice.
func dialHere(addr string) (net.Conn, error) {
	tcp, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), addr)
	defer file.Close() // the connection has a copy
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(tcp.IP.To4())}); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return net.FileConn(file)
}

// vanish removes the host from the network without a sign to the other end. appear brings it back.
func (l *lan) vanish() error { return l.host.ip(nil, l.link("down")) }
func (l *lan) appear() error { return l.host.ip(nil, l.link("up")) }

// cut takes the link down, and both ends notice that. reconnect brings it up again.
func (l *lan) cut() error       { return l.net.ip(nil, []string{"link", "set", "port0", "down"}) }
func (l *lan) reconnect() error { return l.net.ip(nil, []string{"link", "set", "port0", "up"}) }

func (l *lan) link(state string) []string {
	return []string{"link", "set", fmt.Sprint("lan", l.n), state}
}
