package redistest

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownedAttr makes the kernel kill the process when the thread that started it ends.
func ownedAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// AwaitStopped waits until a child of this process has stopped with all its threads. The kernel
// delivers the signal some time after it was sent. Without the wait, the child could still act
// after Pause has returned.
func AwaitStopped(pid int) error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("wait for process %d to stop: %w", pid, err)
		default:
			return nil
		}
	}
}
