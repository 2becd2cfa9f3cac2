//go:build unix

package guard

import (
	"os"
	"runtime/debug"
	"syscall"
)

// AbortOnCrash makes a crash that no function can recover end the process by SIGABRT. The stacks of
// all goroutines are printed before. A shell shows the status as 134; without this call, Go's
// status is 2. No core file is written, because it would contain passwords and values. If
// GOTRACEBACK is set, AbortOnCrash does nothing.
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
