package cli

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the terminal of this process, if it is in the foreground there. A program in a
// process group of its own may read the terminal only while that group is in the foreground.
type terminal struct {
	fd    int
	group int // the process group of this process
}

// ownTerminal returns nil when standard input is no terminal, or another group is in front.
func ownTerminal() *terminal {
	t := &terminal{fd: int(os.Stdin.Fd()), group: unix.Getpgrp()}
	front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil || front != t.group {
		return nil
	}
	return t
}

// giveTo puts the program that is about to start in the foreground.
func (t *terminal) giveTo(attr *syscall.SysProcAttr) {
	if t != nil {
		attr.Foreground, attr.Ctty = true, t.fd
	}
}

// takeBack puts this process in the foreground again.
func (t *terminal) takeBack() {
	if t == nil {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // the system's answer to a background process that does this
	defer signal.Reset(syscall.SIGTTOU)
	unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group)
}
