package timerslack

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

// second is set in the environment of the second start: there is no third, whatever becomes of the
// slack.
const second = "LEASH_STARTED_ANEW"

// Widen starts the program anew, in the same process, so that its monitor thread has a wide timer
// slack; then it returns, and the calling thread has the usual one, as those have that it starts.
// Where that cannot be done, and where somebody has set such a slack already, it changes nothing
// else. Call it first of all, and from main.
func Widen() {
	runtime.LockOSThread() // slack is a thread's own
	defer runtime.UnlockOSThread()
	was, err := get()
	if err != nil {
		return
	}
	if os.Getenv(second) != "" || was >= wide {
		os.Unsetenv(second)
		set(usual)
		return
	}
	path, err := os.Executable()
	if err != nil || set(wide) != nil {
		return
	}
	// a real-time thread has none, and says that it was set
	if now, err := get(); err == nil && now == wide {
		syscall.Exec(path, os.Args, append(os.Environ(), second+"=1")) // what comes back has failed
	}
	set(was)
}

// Narrow gives the calling thread, which should be locked to its goroutine, the usual slack, and so
// the processes that it starts.
func Narrow() { set(usual) }

func get() (ns int, err error) {
	n, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_TIMERSLACK, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func set(ns int) error { return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(ns), 0, 0, 0) }
