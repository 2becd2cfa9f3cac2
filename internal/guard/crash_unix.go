//go:build unix

package guard

import (
	"os"
	"runtime/debug"
	"syscall"
)

// AbortOnCrash makes what no function can recover end the process by SIGABRT, which a shell shows
// as 134, behind the stacks of all goroutines. Go's own status is 2. No core is written, which
// would hold passwords and values, unless GOTRACEBACK is set: then that decides, and AbortOnCrash
// does nothing.
func AbortOnCrash() {
	if os.Getenv("GOTRACEBACK") != "" {
		return
	}
	var core syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_CORE, &core) != nil {
		return
	}
	core.Cur = 0
	if syscall.Setrlimit(syscall.RLIMIT_CORE, &core) == nil {
		debug.SetTraceback("crash")
	}
}
