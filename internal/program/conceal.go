//go:build unix

package program

import (
	"os"
	"syscall"

	"leash/internal/config"
)

// conceal starts the program again, in the same process, if an argument has a password in it. The
// password then is in an environment variable, which other users cannot read. They can read the
// arguments of every process. It returns only if there is nothing to hide, or if the system does
// not start the program.
func conceal() {
	args, environ, changed := config.Conceal(os.Args[1:], os.Environ())
	if !changed {
		return
	}
	if path, err := os.Executable(); err == nil {
		_ = syscall.Exec(path, append([]string{os.Args[0]}, args...), environ)
	}
}
