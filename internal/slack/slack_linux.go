package slack

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Timer slack, in ns (prctl(2), PR_SET_TIMERSLACK).
const (
	usual = 50_000    // what Linux gives
	wide  = 1_000_000 // what the monitor thread is to have
)

// Widen starts the program anew, in the same process, so that its monitor thread has a wide timer slack; then it returns, and the calling
// thread has the usual one, as those have that it starts. Where that cannot be done, and where somebody has set such a slack already, it changes
// nothing else. Call it first of all, and from main.
func Widen() {
	runtime.LockOSThread() // slack is a thread's own
	defer runtime.UnlockOSThread()
	was, err := get()
	if err != nil {
		return
	}
	if was >= wide { // this is the second start
		set(usual)
		return
	}
	path, err := os.Executable()
	if err != nil || set(wide) != nil {
		return
	}
	syscall.Exec(path, os.Args, os.Environ()) // what comes back has failed
	set(was)
}

func get() (ns int, err error) {
	n, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_TIMERSLACK, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func set(ns int) error { return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(ns), 0, 0, 0) }
